// Node's options for the control plane, as its systemd unit sets them: `npm start` and the benches run it as operators do.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** `NODE_OPTIONS` of the unit in that checkout; empty if it sets none. */
export function controlPlaneOptions(checkout: string): string {
  const unit = readFileSync(join(checkout, 'infra/systemd/dormouse-control-plane.service'), 'utf8')
  return /^Environment=NODE_OPTIONS=(.*)$/m.exec(unit)?.[1] ?? ''
}
