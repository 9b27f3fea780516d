// Folders into which packages are unpacked without being installed.

import { mkdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'

/** A tree in which /bin, /sbin and /lib are names for folders of /usr, as every current distribution has it. */
export function systemTree(root: string): string {
  for (const each of ['bin', 'sbin', 'lib', 'lib64']) {
    mkdirSync(join(root, 'usr', each), { recursive: true })
    symlinkSync(`usr/${each}`, join(root, each))
  }
  return root
}
