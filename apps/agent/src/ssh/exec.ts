// A command in a guest over its SSH connection: its own end is the answer, its deadline kills it, its output is bounded
// here. What it leaves in the background keeps its channel until it ends.
import { randomBytes } from 'node:crypto'
import { type ExecCommand, type ExecResult, Refusal, refuse } from '@dormouse/contract'
import { begunBefore, deadlineOf, untilKilled } from '../mechanics/deadlines.ts'
import { holdScript, killOldScript, killScript, plainScript, wokenScript } from '../scripts/exec.ts'
import { type Ended, resultOf } from '../scripts/exec-result.ts'
import type { SshLine } from './connection.ts'
import { Run } from './remote-command.ts'
import type { SpareShell } from './warm-shell.ts'

/** The guest's shell takes a command of so much in one piece; a longer one goes through a file. */
const scriptMaxBytes = 100_000
/** After a command's end: how long to wait for the end of its output, and how long silence means that there is no more. */
const drainMs = 500
const quietMs = 250
const settleMs = 300
const settleQuietMs = 80
/** A guest that is busy tells late what holds the output. */
const holdMs = 5_000
const killMs = 5_000
/** For so long a command that was begun too late is waited for, to be ended. */
const lateMs = 60_000
/** How far a guest's own count of seconds may be behind. */
const skewSecs = 2

/** In a spare shell where one is to be had. Whatever is begun after the deadline is ended at once. */
export async function execOverSsh(
  line: SshLine,
  command: ExecCommand,
  spare?: SpareShell,
  deadline = deadlineOf(command),
): Promise<ExecResult> {
  using _ = spare?.during()
  const started = performance.now()
  const nonce = randomBytes(12).toString('hex')
  const shell = command.stdin === null ? spare?.take() : undefined
  const fed = shell?.feed(wokenScript(command, nonce))
  const run = fed ?? (await begunBefore(deadline, begun(line, command, nonce, deadline), (late) => ended(line, late)))
  const over = run.over(deadline).catch((error: unknown) => {
    if (run.pid !== undefined) endLater(line, run.pid, command.timeoutSecs, deadline)
    throw error
  })
  if (!(await over)) {
    const ending = ended(line, run)
    // One that has not even said its process keeps nobody waiting.
    if (run.pid === undefined) line.aside(ending)
    else await ending
    refuse('guest_deadline', `the command ran longer than ${command.timeoutSecs} s and was ended`)
  }
  if (!(await run.drained(drainMs, quietMs))) await letGo(line, run)
  else if (run.pid === undefined) refuse('command_not_run', 'the guest’s shell ended before it began the command')
  return resultOf(run.take(), nonce, Math.round(performance.now() - started))
}

/** What a script prints; a refusal of its own where it does not end well. */
export async function runOverSsh(line: SshLine, script: string, timeoutMs: number): Promise<Ended> {
  const deadline = performance.now() + timeoutMs
  const run = await begunBefore(deadline, Run.begin(line, script), async (late) => late.close())
  if (await run.over(deadline)) {
    await run.drained(timeoutMs, timeoutMs)
    return run.take()
  }
  run.close()
  return refuse('guest_deadline', 'the guest did not answer in time')
}

async function begun(line: SshLine, command: ExecCommand, nonce: string, deadline: number): Promise<Run> {
  const script = await carried(line, plainScript(command, nonce), nonce, deadline)
  const run = await Run.begin(line, script, (late) => line.aside(ended(line, late)))
  return command.stdin === null ? run : run.feed(command.stdin)
}

async function carried(line: SshLine, script: string, nonce: string, deadline: number): Promise<string> {
  if (Buffer.byteLength(script) <= scriptMaxBytes) return script
  const file = `/run/.dormouse-${nonce}.sh`
  const text = `rm -f ${file}\n${script}`
  const run = (await Run.begin(line, `umask 077; cat >${file}`)).feed(text)
  const taken = await run.over(deadline)
  if (taken && run.take().exitCode !== 0) refuse('command_not_run', 'the guest has no room for the command')
  if (performance.now() < deadline) return `exec /bin/sh ${file}`
  const removed = run.over(performance.now() + lateMs).then(() => runOverSsh(line, `rm -f ${file}`, killMs))
  line.aside(removed)
  return refuse('guest_deadline', 'the guest was too busy to take the command in time')
}

/** Ends a command with all that it began; one that has not said its process yet, as soon as it does. */
async function ended(line: SshLine, run: Run): Promise<void> {
  const pid = await run.named(lateMs)
  if (pid !== undefined) await untilKilled(() => killed(line, pid))
  run.close()
}

/**
 * The command is over and its output is not: what it left behind holds it, or the guest is slow. Something in the guest
 * takes over what is held, so that its writers live on when the channel goes; and by the time that it says so, all that
 * was written before is here.
 */
async function letGo(line: SshLine, run: Run): Promise<void> {
  // Where not even its first line is here, the guest is so slow that the rest is on its way.
  const pid = await run.named(holdMs)
  if (pid === undefined || (await run.drained(0, 0))) return
  try {
    const { stdout } = await runOverSsh(line, holdScript(pid), holdMs)
    await run.drained(settleMs, settleQuietMs)
    // A process that has left the session is not found: then the channel stays, and we read on ourselves.
    if (Number(stdout.toString()) > 0) run.close()
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    await run.drained(holdMs, holdMs)
  }
}

/** Its connection is lost and it may go on: at its deadline it is ended over the next one. */
function endLater(line: SshLine, pid: number, timeoutSecs: number, deadline: number): void {
  const end = async () => {
    await line.connect()
    await runOverSsh(line, killOldScript(pid, timeoutSecs - skewSecs), killMs)
  }
  setTimeout(() => line.aside(end()), deadline - performance.now()).unref()
}

/** A guest that is gone by now has ended the command too. */
async function killed(line: SshLine, pid: number): Promise<boolean> {
  try {
    return (await runOverSsh(line, killScript(pid), killMs)).exitCode === 0
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return !line.connected
  }
}
