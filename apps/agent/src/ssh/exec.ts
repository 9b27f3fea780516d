// A command that runs to its end, by calls of the guest's program. Its own end is the answer, whatever it leaves in the background.
// At its deadline the guest kills it. Its output is bounded there and here.
import { type ExecCommand, type ExecResult, newId, Refusal } from '@dormouse/contract'
import { CommandLost, deadlineOf } from '../driver/guest-transport.ts'
import { before } from '../mechanics/deadlines.ts'
import { execResultOf, startedTooLate, timedOutResult } from '../scripts/exec-result.ts'
import { type EndedCommand, parseEnd, shortCommands, startWords } from '../scripts/supervisor.ts'
import type { GuestCalls } from './calls.ts'

/** How long one call waits for the end. */
const longestWaitMs = 20_000
/** How long a busy guest may take for a call. */
const callSecs = 60
/** How long a command that was killed may take to end. */
const killMs = 6_000

type Calls = Pick<GuestCalls, 'call'>
/** Its desktop is that of the calls. */
type Command = Omit<ExecCommand, 'desktopId' | 'generation'>

/** Runs a command to its end, and returns what it printed. */
export async function runCommand(calls: Calls, command: Command, deadline = deadlineOf(command)): Promise<ExecResult> {
  const begunAt = performance.now()
  const id = newId()
  const starting = start(calls, command, id, deadline)
  // If it was sent in time, it may have started: then it has to end.
  const started = await before(deadline + killMs, starting.catch(nullIfLost))
  if (started === undefined) {
    starting.then(() => kill(calls, id)).catch(() => undefined)
    throw startedTooLate()
  }
  const ended = (started && parseEnd(started, command)) ?? (await endOf(calls, id, deadline))
  const whole = ended ?? (await kill(calls, id))
  ask(calls, ['remove', id, killMs]).catch(() => undefined)
  const durationMs = Math.round(performance.now() - begunAt)
  if (!ended || ended.reason === 'timeout') return timedOutResult(whole, command, durationMs)
  if (ended.isLost) throw new CommandLost('the guest was restarted while the command ran')
  return execResultOf(ended, durationMs)
}

/** Starts it, and waits for its end. Not repeated: a guest that has booted meanwhile would not know the id, and run it twice. */
function start(calls: Calls, command: Command, id: string, deadline: number): Promise<Buffer> {
  const timeoutSecs = Math.max(1, Math.ceil((deadline - performance.now()) / 1_000))
  // It is known to have started before the deadline has passed.
  const waitMs = Math.floor(msUntil(deadline) / 2)
  const words = startWords({ ...command, id, timeout_secs: timeoutSecs }, { folder: shortCommands, waitMs })
  const call = { words, input: command.stdin ?? undefined, timeoutSecs: callSecs, notAfter: deadline }
  return calls.call(call, { repeats: false })
}

/** Undefined at the deadline. From its start on, a guest that is out of reach may go on with it. */
async function endOf(calls: Calls, id: string, deadline: number): Promise<EndedCommand | undefined> {
  while (performance.now() < deadline) {
    const asking = ask(calls, ['end', id, msUntil(deadline), 0]).then((answer) => parseEnd(answer))
    const ended = await before(deadline, asking).catch(asLost)
    if (ended) return ended
  }
  return undefined
}

/** What it had printed when it was killed; it may have ended by itself. Nothing, if the guest does not answer. */
async function kill(calls: Calls, id: string): Promise<Pick<EndedCommand, 'stdout' | 'stderr'>> {
  const killing = ask(calls, ['end', id, killMs, 1]).then((answer) => parseEnd(answer), unlessRefused)
  return (await before(performance.now() + killMs, killing)) ?? { stdout: nothing, stderr: nothing }
}

const ask = (calls: Calls, words: (string | number)[]): Promise<Buffer> =>
  calls.call({ words: [shortCommands, ...words], timeoutSecs: callSecs })

const nothing = { bytes: Buffer.alloc(0), isCut: false }

const msUntil = (deadline: number): number =>
  Math.max(0, Math.min(longestWaitMs, Math.ceil(deadline - performance.now())))

function asLost(error: unknown): never {
  const isLost = error instanceof Refusal && (error.code === 'guest_unavailable' || error.code === 'exec_unknown')
  throw isLost ? new CommandLost(error.detail ?? 'the guest was lost while the command ran') : error
}

function unlessRefused(error: unknown): undefined {
  if (!(error instanceof Refusal)) throw error
  return undefined
}

/** If the answer was lost, the guest is asked for the end. */
function nullIfLost(error: unknown): null {
  if (!(error instanceof CommandLost)) throw error
  return null
}
