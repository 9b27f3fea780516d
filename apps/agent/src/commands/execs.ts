// Execs in the guest of an awake desktop: started, read and controlled. Each command is short, or waits for output.
import type { CommandName, CommandPayload, CommandResult } from '@dormouse/contract'
import { type AwakeDeps, awakeGuest, whileAwake } from '../desktops/awake-guest.ts'
import type { ExecActivity } from '../desktops/exec-activity.ts'
import type { GuestTransport } from '../driver/guest-transport.ts'
import type { GuestExecs } from '../guest/execs.ts'
import { unlessAborted } from '../mechanics/deadlines.ts'
import type { CommandHandler } from './handler.ts'

interface ExecDeps extends AwakeDeps {
  execs: GuestExecs
  execActivity: Pick<ExecActivity, 'started' | 'moved'>
}

type ExecName = Extract<CommandName, `exec.${string}`>

type Work<N extends ExecName> = (
  deps: ExecDeps,
  guest: GuestTransport,
  request: CommandPayload<N>,
) => Promise<CommandResult<N>>

/** Ends when the desktop is no longer awake, and not with its caller: what goes on in the guest is counted until it ends. */
const inGuest =
  <N extends ExecName>(work: Work<N>): CommandHandler<N, ExecDeps> =>
  async (deps, request) => {
    const guest = awakeGuest(deps, request)
    using awake = whileAwake(deps, request)
    return await unlessAborted(work(deps, guest, request), awake.signal)
  }

export const execHandlers: { [N in ExecName]: CommandHandler<N, ExecDeps> } = {
  'exec.start': inGuest(async ({ execs, execActivity }, guest, request) => {
    const exec = await execs.start(guest, request)
    execActivity.started(request, exec)
    return { exec }
  }),
  'exec.list': inGuest(async ({ execs }, guest, request) => ({ execs: await execs.list(guest, request) })),
  'exec.get': inGuest(async ({ execs }, guest, request) => ({ exec: await execs.get(guest, request) })),
  'exec.read': inGuest(({ execs }, guest, request) => execs.read(guest, request)),
  'exec.write': inGuest(async ({ execs, execActivity }, guest, request) => {
    const written = await execs.write(guest, request)
    execActivity.moved(request.desktopId)
    return written
  }),
  'exec.signal': inGuest(async ({ execs }, guest, request) => ({ exec: await execs.signal(guest, request) })),
  'exec.resize': inGuest(async ({ execs }, guest, request) => ({ exec: await execs.resize(guest, request) })),
  'exec.remove': inGuest(async ({ execs }, guest, request) => {
    await execs.remove(guest, request)
    return {}
  }),
}
