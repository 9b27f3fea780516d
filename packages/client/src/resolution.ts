// The size of a desktop's screen. The desktop's image has a program that changes it.
import type { Client } from './client.ts'
import { DormouseError, InvalidRequestError } from './errors.ts'
import type { CallOptions } from './http.ts'

/** Pixels. */
export interface Resolution {
  width: number
  height: number
}

const program = '/usr/lib/dormouse/resolution'
const notFound = 127
const refused = 2

const noProgram = `the desktop’s image cannot change its resolution: it has no ${program}; use one with a screen, such as \`desktop\``

/** The command is ours: its name and its folder mean nothing to the caller. */
function explain(error: unknown): never {
  if (error instanceof DormouseError && error.code === 'command_not_run')
    throw new DormouseError(noProgram, { cause: error })
  throw error
}

/**
 * Changes the size of an awake desktop's screen, and returns what it is then. The desktop keeps it, also when it boots again.
 * Throws InvalidRequestError on a size that the screen cannot have.
 */
export async function setResolution(
  client: Client,
  desktopId: string,
  { width, height }: Resolution,
  options: CallOptions = {},
): Promise<Resolution> {
  const command = [program, `${width}x${height}`]
  const { exit_code, stdout, stderr } = await client.exec(desktopId, { command }, options).catch(explain)
  if (exit_code === refused) throw new InvalidRequestError(stderr.trim())
  if (exit_code === notFound) throw new DormouseError(noProgram)
  const [, now = '', nowHigh = ''] = /^(\d+)x(\d+)\n$/.exec(stdout) ?? []
  if (exit_code !== 0 || now === '') throw new DormouseError(`the resolution was not changed: ${stderr.trim()}`)
  return { width: Number(now), height: Number(nowHigh) }
}
