// The life of a command that runs through the guest agent.
import { randomBytes } from 'node:crypto'
import { type ExecCommand, type ExecResult, Refusal } from '@dormouse/contract'
import { type AgentCall, AgentRefused } from '../driver/guest-access.ts'
import { CommandLost } from '../driver/guest-transport.ts'
import { before, startedBefore } from '../mechanics/deadlines.ts'
import { retryFor } from '../mechanics/retries.ts'
import { collectedScript, watcherScript } from '../scripts/collected-command.ts'
import { execResultOf, type ProgramEnd, ranTooLong, startedTooLate } from '../scripts/exec-result.ts'
import { agentLimits, commandLimits } from '../scripts/limits.ts'
import { killScript } from '../scripts/processes.ts'
import { writePrivateFile } from './handles.ts'
import { programEnd, runScript, startProgram } from './programs.ts'

const killPauseMs = 100

/** Runs a command to its end, and returns what it printed. At the deadline it is killed (`guest_deadline`). */
export async function execThroughAgent(call: AgentCall, command: ExecCommand, deadline: number): Promise<ExecResult> {
  const startedAt = performance.now()
  const nonce = randomBytes(12).toString('hex')
  const pid = await startedBefore(deadline, start(call, command, nonce), (late) => kill(call, late))
  if (pid === undefined) throw startedTooLate()
  const watched = watchedEnd(call, pid, nonce, command.timeoutSecs, deadline)
  const end = await before(deadline, watched).catch(lost)
  if (!end) {
    await kill(call, pid)
    throw ranTooLong(command)
  }
  return execResultOf(end, nonce, command, Math.round(performance.now() - startedAt))
}

function lost(error: unknown): never {
  throw error instanceof Refusal && error.code === 'guest_unavailable' ? new CommandLost(error.detail) : error
}

/** Starts the command's script. A long script or input goes through a file. */
async function start(call: AgentCall, command: ExecCommand, nonce: string): Promise<number> {
  const { stdin } = command
  const isLongInput = stdin !== null && Buffer.byteLength(stdin) > agentLimits.inputMaxBytes
  const inputFile = isLongInput ? `/run/.dormouse-${nonce}.in` : undefined
  if (inputFile) await carry(call, inputFile, stdin!)
  const script = collectedScript(command, nonce, inputFile)
  const input = stdin === null || inputFile ? {} : { 'input-data': Buffer.from(stdin).toString('base64') }
  const inline = { path: '/bin/sh', arg: ['-c', script], 'capture-output': true, ...input }
  if (Buffer.byteLength(JSON.stringify(inline)) <= agentLimits.callMaxBytes) return startProgram(call, inline)
  const scriptFile = `/run/.dormouse-${nonce}.sh`
  await carry(call, scriptFile, `rm -f ${scriptFile}\n${script}`)
  return startProgram(call, { ...inline, arg: [scriptFile] })
}

async function carry(call: AgentCall, path: string, text: string): Promise<void> {
  try {
    await writePrivateFile(call, path, Buffer.from(text))
  } catch (error) {
    if (!(error instanceof AgentRefused)) throw error
    const refusal = new Refusal('command_not_run', 'the guest has no space for the command')
    refusal.cause = error
    throw refusal
  }
}

/** The command's end; undefined at the deadline. A command that does not end at once gets a watcher in the guest. */
async function watchedEnd(call: AgentCall, pid: number, nonce: string, timeoutSecs: number, deadline: number) {
  const endWithin = (ms: number): Promise<ProgramEnd | undefined> =>
    programEnd(call, pid, Math.min(deadline, performance.now() + ms))
  const soon = await endWithin(agentLimits.shortCommandMs)
  if (soon) return soon
  while (!(await runIfSpace(call, watcherScript(pid, nonce, timeoutSecs)))) {
    const end = await endWithin(agentLimits.watcherRetryMs)
    if (end || performance.now() > deadline) return end
  }
  return programEnd(call, pid, deadline)
}

/**
 * Kills the command's processes and makes the agent forget it. Returns when that is done, or after a few seconds; retrying
 * then goes on in the background.
 */
async function kill(call: AgentCall, pid: number): Promise<void> {
  let unanswered = 0
  const attempt = async () => {
    const killed = await tryKill(call, pid)
    if (killed === undefined) unanswered++
    // An unreachable guest needs no killing. A guest that a command has filled up may only be slow to answer.
    return killed ?? unanswered >= agentLimits.unansweredKills
  }
  const killing = retryFor(commandLimits.killRetryMs, killPauseMs, attempt)
  await before(performance.now() + commandLimits.killWaitMs, killing)
}

/** Whether the command has ended; undefined if the guest does not answer. */
async function tryKill(call: AgentCall, pid: number): Promise<boolean | undefined> {
  try {
    if (!(await runIfSpace(call, killScript(pid)))) return false
    return (await programEnd(call, pid, performance.now() + agentLimits.scriptMs)) !== undefined
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return undefined
  }
}

/** False if the guest has no space to run the script: a command may have filled it up. */
async function runIfSpace(call: AgentCall, script: string): Promise<boolean> {
  try {
    await runScript(call, script)
    return true
  } catch (error) {
    if (!(error instanceof Refusal) || !(error.cause instanceof AgentRefused)) throw error
    return false
  }
}
