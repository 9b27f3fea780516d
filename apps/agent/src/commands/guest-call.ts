// The calls to the guest of an awake desktop. Each has the body that the API documents, and returns what the API returns.
import {
  type DesktopId,
  type ExecStateJson,
  type GuestCallBody,
  type GuestCallName,
  type GuestCallResult,
  guestCalls,
  Refusal,
  refuse,
} from '@dormouse/contract'
import { type AwakeDeps, awakeGuest, whileAwake } from '../desktops/awake-guest.ts'
import type { ExecActivity } from '../desktops/exec-activity.ts'
import { CommandLost, type GuestTransport } from '../driver/guest-transport.ts'
import type { GuestExecs } from '../guest/execs.ts'
import type { Appends } from '../guest/transfers.ts'
import type { GuestWatches } from '../guest/watches.ts'
import { unlessAborted } from '../mechanics/deadlines.ts'
import type { ExecReport } from '../scripts/supervisor.ts'
import { changeOf, entryJsonOf } from './entry-shapes.ts'
import type { CommandHandler } from './handler.ts'

interface GuestCallDeps extends AwakeDeps {
  execs: GuestExecs
  watches: GuestWatches
  appends: Pick<Appends, 'end'>
  execActivity: Pick<ExecActivity, 'started' | 'moved'>
}

interface Target {
  desktopId: DesktopId
  generation: number
  timeoutSecs: number
}

type Call<N extends GuestCallName> = (
  deps: GuestCallDeps,
  guest: GuestTransport,
  body: GuestCallBody<N>,
  target: Target,
) => Promise<GuestCallResult<N>>

const calls: { [N in GuestCallName]: Call<N> } = {
  exec: async (_deps, guest, body, { desktopId, generation }) => {
    const { command, cwd = null, env, stdin = null, timeout_secs: timeoutSecs } = body
    const how = { command, cwd, env: env ?? {}, stdin, timeoutSecs, showsTimeout: true }
    const ended = await guest.exec({ desktopId, generation, ...how })
    return {
      exit_code: ended.exitCode,
      signal: ended.signal,
      stdout: ended.stdout,
      stderr: ended.stderr,
      stdout_truncated: ended.stdoutTruncated,
      stderr_truncated: ended.stderrTruncated,
      duration_ms: ended.durationMs,
      ...(ended.timedOut && { timed_out: true }),
    }
  },
  'exec.start': async ({ execs, execActivity }, guest, body, target) => {
    const exec = await execs.start(guest, body)
    execActivity.started(target, exec)
    return execOf(exec, target)
  },
  'exec.list': async ({ execs }, guest, _body, target) => ({
    execs: (await execs.list(guest)).map((exec) => execOf(exec, target)),
  }),
  'exec.get': async ({ execs }, guest, body, target) => execOf(await execs.get(guest, body), target),
  'exec.read': async ({ execs }, guest, body, target) => {
    const { exec, ...part } = await execs.read(guest, target.desktopId, body)
    return { exec: execOf(exec, target), ...part }
  },
  'exec.write': async ({ execs, execActivity }, guest, body, { desktopId }) => {
    const written = await execs.write(guest, body)
    execActivity.moved(desktopId)
    return written
  },
  'exec.signal': async ({ execs }, guest, body, target) => execOf(await execs.signal(guest, body), target),
  'exec.resize': async ({ execs }, guest, body, target) => execOf(await execs.resize(guest, body), target),
  'exec.remove': async ({ execs }, guest, body) => {
    await execs.remove(guest, body)
    return {}
  },
  // Watches are no activity: one that was left open keeps no desktop awake.
  'watch.start': ({ watches }, guest, body) => watches.start(guest, body),
  'watch.read': ({ watches }, guest, body) => watches.read(guest, body),
  'watch.remove': async ({ watches }, guest, body) => {
    await watches.remove(guest, body)
    return {}
  },
  'entry.list': async (_deps, guest, { path, depth, cursor, limit }) => {
    const { entries, next } = await guest.listEntries({ path, depth, after: cursor, limit })
    return { entries: entries.map(entryJsonOf), next_cursor: next }
  },
  'entry.change': async (_deps, guest, body, { timeoutSecs }) => {
    const entry = await guest.changeEntry(changeOf(body), timeoutSecs)
    return { entry: entry && entryJsonOf(entry) }
  },
  'upload.step': async ({ appends }, guest, { id, ...step }, target) => {
    await appends.end(id)
    return guest.uploadStep({ ...target, uploadId: id, ...step })
  },
}

const execOf = (exec: ExecReport, { desktopId }: Target): ExecStateJson => ({ ...exec, desktop_id: desktopId })

/** If the guest is lost once a command may have begun, that is no `guest_unavailable`: those are repeated. */
export const startsPrograms: ReadonlySet<GuestCallName> = new Set<GuestCallName>(['exec', 'exec.start'])

/** Ends when the desktop is no longer awake, and not with its caller, unless it only reads entries. */
export const guestCall: CommandHandler<'guest.call', GuestCallDeps> = async (deps, request, given) => {
  const { call, body } = request
  const parsed = guestCalls[call].body.safeParse(body)
  if (!parsed.success) return refuse('invalid_request', `${call}: ${parsed.error.message}`)
  const guest = awakeGuest(deps, request)
  using awake = whileAwake(deps, request, call === 'entry.list' ? given : undefined)
  const work = calls[call] as Call<GuestCallName>
  try {
    return await unlessAborted(work(deps, guest, parsed.data as GuestCallBody<GuestCallName>, request), awake.signal)
  } catch (error) {
    if (!startsPrograms.has(call)) throw error
    throw awake.signal.aborted || error instanceof CommandLost ? new Refusal('exec_interrupted') : error
  }
}
