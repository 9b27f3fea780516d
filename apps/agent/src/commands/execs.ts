// Commands in the guest of an awake desktop: run to their end, or as execs that are started, read and controlled.
import type { CommandName } from '@dormouse/contract'
import type { AwakeDeps } from '../desktops/awake-guest.ts'
import type { ExecActivity } from '../desktops/exec-activity.ts'
import type { GuestExecs } from '../guest/execs.ts'
import type { CommandHandler } from './handler.ts'
import { inGuest, startingInGuest } from './in-guest.ts'

interface ExecDeps extends AwakeDeps {
  execs: GuestExecs
  execActivity: Pick<ExecActivity, 'started' | 'moved'>
}

type ExecName = Extract<CommandName, 'guest.exec' | `exec.${string}`>

export const execHandlers: { [N in ExecName]: CommandHandler<N, ExecDeps> } = {
  'guest.exec': startingInGuest((_deps, guest, command) => guest.exec(command)),
  'exec.start': startingInGuest(async ({ execs, execActivity }, guest, request) => {
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
