// Starts a command over SSH in a channel of its own.
import { type ExecCommand, refuse } from '@dormouse/contract'
import { plainScript } from '../scripts/command.ts'
import { startedTooLate } from '../scripts/exec-result.ts'
import { sshCommandLimits } from '../scripts/limits.ts'
import type { SshConnection } from './connection.ts'
import { killCommand } from './end-command.ts'
import { RemoteCommand } from './remote-command.ts'
import { runScript } from './run-script.ts'

/** Starts the command and sends its input. A command that starts after the timeout for opening a channel is killed. */
export async function startCommand(
  connection: SshConnection,
  command: ExecCommand,
  nonce: string,
  deadline: number,
): Promise<RemoteCommand> {
  const script = await asArgument(connection, plainScript(command, nonce), nonce, deadline)
  const killLate = (late: RemoteCommand) => connection.inBackground(killCommand(connection, late))
  const running = await RemoteCommand.start(connection, script, killLate)
  return command.stdin === null ? running : running.sendInput(command.stdin)
}

/** The script, or one that runs it from a file: the guest's shell accepts only so much as one argument. */
async function asArgument(connection: SshConnection, script: string, nonce: string, deadline: number): Promise<string> {
  if (Buffer.byteLength(script) <= sshCommandLimits.scriptMaxBytes) return script
  const file = `/run/.dormouse-${nonce}.sh`
  const writing = (await RemoteCommand.start(connection, `umask 077; cat >${file}`)).sendInput(
    `rm -f ${file}\n${script}`,
  )
  const isWritten = await writing.exitedBefore(deadline)
  if (isWritten && writing.takeEnd().exitCode !== 0) refuse('command_not_run', 'the guest has no space for the command')
  if (performance.now() < deadline) return `exec /bin/sh ${file}`
  connection.inBackground(removeWritten(connection, writing, file))
  throw startedTooLate()
}

async function removeWritten(connection: SshConnection, writing: RemoteCommand, file: string): Promise<void> {
  await writing.exitedBefore(performance.now() + sshCommandLimits.lateStartMs)
  await runScript(connection, `rm -f ${file}`, sshCommandLimits.killScriptMs)
}
