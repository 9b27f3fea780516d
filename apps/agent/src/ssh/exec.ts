// The life of a command that runs over SSH. Its own end is the answer, whatever it leaves in the background; its deadline
// kills it; its output is bounded here.
import { randomBytes } from 'node:crypto'
import { type ExecCommand, type ExecResult, refuse } from '@dormouse/contract'
import { deadlineOf } from '../driver/guest-transport.ts'
import { startedBefore } from '../mechanics/deadlines.ts'
import { warmShellCommand } from '../scripts/command.ts'
import { execResultOf, startedTooLate, timedOutResult } from '../scripts/exec-result.ts'
import { sshCommandLimits } from '../scripts/limits.ts'
import type { SshConnection } from './connection.ts'
import { killCommand, killOnNextConnection, releaseOutput } from './end-command.ts'
import type { RemoteCommand } from './remote-command.ts'
import { startCommand } from './start-command.ts'
import type { WarmShell } from './warm-shell.ts'

/** Runs a command to its end, in a warm shell if there is one, and returns what it printed. */
export async function execOverSsh(
  connection: SshConnection,
  command: ExecCommand,
  warmShell?: WarmShell,
  deadline = deadlineOf(command),
): Promise<ExecResult> {
  using _ = warmShell?.pause()
  const startedAt = performance.now()
  const nonce = randomBytes(12).toString('hex')
  const starting = () => startCommand(connection, command, nonce, deadline)
  const running =
    (command.stdin === null ? warmShell?.take()?.sendInput(warmShellCommand(command, nonce)) : undefined) ??
    (await startedBefore(deadline, starting(), (late) => killCommand(connection, late)))
  if (!running) throw startedTooLate()
  if (!(await exitedBefore(deadline, connection, running, command))) {
    await endAtDeadline(connection, running)
    return timedOutResult(running.takeEnd(), command, Math.round(performance.now() - startedAt))
  }
  await completeOutput(connection, running)
  return execResultOf(running.takeEnd(), nonce, command, Math.round(performance.now() - startedAt))
}

/** If the connection is lost the command may go on: it is then killed at its deadline, over the next connection. */
async function exitedBefore(deadline: number, connection: SshConnection, running: RemoteCommand, command: ExecCommand) {
  try {
    return await running.exitedBefore(deadline)
  } catch (error) {
    if (running.pid !== undefined) killOnNextConnection(connection, running.pid, command.timeoutSecs, deadline)
    throw error
  }
}

/** A command whose process is not known yet is killed in the background, as soon as it is. */
async function endAtDeadline(connection: SshConnection, running: RemoteCommand): Promise<void> {
  const killing = killCommand(connection, running)
  if (running.pid === undefined) connection.inBackground(killing)
  else await killing
}

/** Waits for the rest of the output, unless what the command left in the background holds it open. */
async function completeOutput(connection: SshConnection, running: RemoteCommand): Promise<void> {
  const { outputMs, outputSilenceMs } = sshCommandLimits
  if (!(await running.outputEnded(outputMs, outputSilenceMs))) await releaseOutput(connection, running)
  else if (running.pid === undefined)
    refuse('command_not_run', 'the guest’s login shell ended before running the command')
}
