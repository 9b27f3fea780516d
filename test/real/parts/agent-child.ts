// An agent without a control plane in a process of its own, so that a test can kill it: commands come as messages.

import { LibvirtDriver } from '@dormouse/agent/driver/libvirt/libvirt.ts'
import type { LibvirtSettings } from '@dormouse/agent/driver/libvirt/settings.ts'
import { Bench, type BenchOptions } from '@dormouse/agent/testing/bench.ts'
import type { CommandName, CommandPayload } from '@dormouse/contract'
import { createLog } from '@dormouse/process'
import { settingsOf } from './agent-stage.ts'

export interface ChildOptions {
  folder: string
  /** The folder of saved memories; in `folder` by default. */
  memoryFolder?: string
  socketPath: string
  installationId: string
  mibPerSec?: number
  /** Where it accepts moves; a free port of this machine by default. */
  listen?: { host: string; port: number }
  settings?: Partial<LibvirtSettings>
  warm?: BenchOptions<LibvirtDriver>['warm']
  templatesMiB?: number
  /** What it does at each, once it is up. */
  failpoints?: Record<string, string>
}

export interface Command {
  number: number
  name: CommandName | 'carried'
  payload: unknown
}

export type Outcome = { number: number } & ({ result: unknown } | { code: string; detail: string })

const options: ChildOptions = JSON.parse(process.argv[2]!)
const { folder, memoryFolder, socketPath, installationId, mibPerSec, settings, warm, templatesMiB } = options
const log = createLog({ name: 'agent', level: 'silent' })
const moves = { listen: options.listen ?? { host: '127.0.0.1', port: 0 }, mibPerSec }
const makeDriver = () => new LibvirtDriver({ ...settingsOf(folder, socketPath), ...settings }, log)
const kept = { folder, installationId, ...(memoryFolder && { memoryFolder }) }
const bench = await Bench.over({ ...kept, makeDriver, moves, warm, templatesMiB })
for (const [name, action] of Object.entries(options.failpoints ?? {})) bench.failpoints.set(name, action)

/** How much of the desktop's move was carried. */
const carried = (desktopId: string): number =>
  (bench.parts.moves.of(desktopId) as { transfer?: { bytes: number } } | undefined)?.transfer?.bytes ?? 0

process.on('message', ({ number, name, payload }: Command) => {
  if (name === 'carried') return process.send!({ number, result: carried(payload as string) })
  return bench.ask(name, payload as CommandPayload<CommandName>).then(
    (result) => process.send!({ number, result }),
    (error) => process.send!({ number, code: String(error.code), detail: String(error.detail ?? error.message) }),
  )
})
process.on('disconnect', () => process.exit())
process.send!({ number: 0, result: 'up' })
