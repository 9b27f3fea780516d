// Runs a short script of ours in a guest over SSH.
import { refuse } from '@dormouse/contract'
import type { GuestConnection } from '../driver/guest-connection.ts'
import type { ProgramEnd } from '../driver/guest-transport.ts'
import { startedBefore } from '../mechanics/deadlines.ts'
import { RemoteCommand } from './remote-command.ts'

/** How the script ended and what it printed; `guest_deadline` at the timeout. */
export async function runScript(connection: GuestConnection, script: string, timeoutMs: number): Promise<ProgramEnd> {
  const deadline = performance.now() + timeoutMs
  const starting = RemoteCommand.start(connection, script)
  const command = await startedBefore(deadline, starting, async (late) => late.close())
  if (command && (await command.exitedBefore(deadline))) {
    await command.outputEnded(timeoutMs, timeoutMs)
    return command.takeEnd()
  }
  command?.close()
  return refuse('guest_deadline', `the guest did not answer within ${timeoutMs / 1_000} s`)
}
