// Ends what a command over SSH has started, or releases its output.
import { Refusal } from '@dormouse/contract'
import { before } from '../mechanics/deadlines.ts'
import { retryFor } from '../mechanics/retries.ts'
import { commandLimits, sshCommandLimits } from '../scripts/limits.ts'
import { holdOutputScript, killIfOldScript, killScript } from '../scripts/processes.ts'
import type { SshConnection } from './connection.ts'
import type { RemoteCommand } from './remote-command.ts'
import { runScript } from './run-script.ts'

const killPauseMs = 100

/**
 * Kills a command and all that it started, as soon as its process is known. Returns when that is done, or after a few
 * seconds: a guest that a command has filled up may have no space yet to run the kill. Retrying goes on in the background.
 */
export async function killCommand(connection: SshConnection, command: RemoteCommand): Promise<void> {
  const pid = await command.pidWithin(sshCommandLimits.lateStartMs)
  if (pid !== undefined) {
    const killing = retryFor(commandLimits.killRetryMs, killPauseMs, () => tryKill(connection, pid))
    await before(performance.now() + commandLimits.killWaitMs, killing)
  }
  command.close()
}

/** Kills a command whose connection is lost, at its deadline and over the next connection. */
export function killOnNextConnection(
  connection: SshConnection,
  pid: number,
  timeoutSecs: number,
  deadline: number,
): void {
  const kill = async () => {
    await connection.connect()
    const ageSecs = timeoutSecs - sshCommandLimits.clockSkewSecs
    await runScript(connection, killIfOldScript(pid, ageSecs), sshCommandLimits.killScriptMs)
  }
  setTimeout(() => connection.inBackground(kill()), deadline - performance.now()).unref()
}

/**
 * For a command that has ended while its output has not: a background process holds the output, or the guest is slow. A
 * process in the guest takes over what is held, so that those who write to it survive the close of the channel. Its answer
 * also means that all output that was written before has come.
 */
export async function releaseOutput(connection: SshConnection, command: RemoteCommand): Promise<void> {
  const { holdMs, heldOutputMs, heldOutputSilenceMs } = sshCommandLimits
  // Without its start line the guest is so slow that the rest is still in flight.
  const pid = await command.pidWithin(holdMs)
  if (pid === undefined || (await command.outputEnded(0, 0))) return
  try {
    const { stdout } = await runScript(connection, holdOutputScript(pid), holdMs)
    await command.outputEnded(heldOutputMs, heldOutputSilenceMs)
    // A process that has left the session is not found. Then the channel stays open and is read here.
    if (Number(stdout.toString()) > 0) command.close()
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    await command.outputEnded(holdMs, holdMs)
  }
}

/** True if the guest is unreachable by now: that ended the command too. */
async function tryKill(connection: SshConnection, pid: number): Promise<boolean> {
  try {
    return (await runScript(connection, killScript(pid), sshCommandLimits.killScriptMs)).exitCode === 0
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return !connection.isConnected
  }
}
