// Ensures that one agent at a time uses a state folder, on the machine that the folder belongs to. Two agents with one key
// and one journal would each undo what the other has done. Knows nothing of the folder's content.
import { createHmac } from 'node:crypto'
import { chmodSync, closeSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { type Log, StartError } from '@dormouse/process'
import { z } from 'zod'
import { privateFolder, readIfThere, removeDurably, writeDurably } from '../mechanics/durable-file.ts'
import { isFull } from '../mechanics/full-disk.ts'

/** The files with a machine's id, the best first. The id changes only with the machine. */
const machineIdFiles = ['/etc/machine-id', '/var/lib/dbus/machine-id', '/sys/class/dmi/id/product_uuid']
const machineId = /^[0-9a-f]{32}$|^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

const bindingSchema = z.object({ source: z.string(), machine: z.string() })
type Binding = z.infer<typeof bindingSchema>

export interface PossessionOptions {
  stateDir: string
  /** Takes over a folder that belongs to another machine. */
  adopt: boolean
  log: Log
  machineIdFiles?: readonly string[]
}

export interface Possession {
  /** Releases the folder for the next agent. The end of the process does so, too, however it ends. */
  release(): void
}

/**
 * Makes the folder if it is missing, and locks it. If another agent or another machine has it, throws a sentence that says what
 * to do.
 */
export async function takeFolder(options: PossessionOptions): Promise<Possession> {
  privateFolder(options.stateDir)
  const lock = lockFolder(options.stateDir)
  try {
    await bindToMachine(options)
    return { release: () => void (lock.isOpen && lock.close()) }
  } catch (error) {
    lock.close()
    throw error
  }
}

/** SQLite's lock on an empty database: a kernel lock, which is released when its process ends. */
function lockFolder(stateDir: string): DatabaseSync {
  const path = join(stateDir, 'lock')
  // SQLite does not say why it cannot.
  closeSync(openSync(path, 'a', 0o600))
  const lock = new DatabaseSync(path)
  try {
    lock.exec('begin exclusive')
    // Any user that can open the file could lock it and keep the agent out.
    chmodSync(path, 0o600)
    return lock
  } catch (cause) {
    lock.close()
    if (hasCode(cause, full))
      throw new StartError(`no space is left for the state folder ${stateDir}; free some`, { cause })
    if (!hasCode(cause, busy))
      throw new StartError(`the state folder ${stateDir} cannot be locked; keep it on a local disk`, { cause })
    throw new StartError(
      `another agent uses the state folder ${stateDir}; stop it first (fuser ${path} names it), or give this one a folder of its own in DORMOUSE_AGENT_STATE_DIR`,
    )
  }
}

/** SQLite's codes for a locked database and a full disk. */
const [busy, full] = [5, 13]
const hasCode = (error: unknown, code: number): boolean =>
  error instanceof Error && 'errcode' in error && error.errcode === code

async function bindToMachine({ stateDir, adopt, log, machineIdFiles: files = machineIdFiles }: PossessionOptions) {
  const path = join(stateDir, 'machine.json')
  const present = await bindingsOf(files)
  const bound = await readBinding(path)
  if (bound && present.some((each) => each.source === bound.source && each.machine === bound.machine)) return
  if (bound && !adopt) refuseMachine(stateDir)
  if (bound) log.warn({ stateDir }, 'the state folder of another machine was adopted; unset DORMOUSE_AGENT_ADOPT now')
  const [best] = present
  if (!best) {
    log.warn({ files }, 'this machine has no id; its state folder is not bound to it')
    // An adopted folder no longer belongs to the other machine.
    return removeDurably(path)
  }
  await writeDurably(path, JSON.stringify(best)).catch((err: unknown) => {
    if (!isFull(err)) throw err
    log.warn({ err }, 'the disk is full; the state folder is bound to its machine at the next start')
  })
}

async function readBinding(path: string): Promise<Binding | undefined> {
  const text = await readIfThere(path)
  if (text === undefined) return undefined
  try {
    return bindingSchema.parse(JSON.parse(text))
  } catch (cause) {
    throw new StartError(`${path} cannot be read; remove it if no other machine uses its folder`, {
      cause,
    })
  }
}

/** Every id of the machine. Ids are confidential, so only their digests are kept. */
async function bindingsOf(files: readonly string[]): Promise<Binding[]> {
  const found = await Promise.all(files.map(async (source) => ({ source, id: await idIn(source) })))
  return found.flatMap(({ source, id }) => (id ? [{ source, machine: digestOf(id) }] : []))
}

async function idIn(file: string): Promise<string | undefined> {
  // Missing or not readable: the next file may be.
  const text = (await readIfThere(file).catch(() => undefined))?.trim()
  return text && machineId.test(text) ? text.toLowerCase() : undefined
}

const digestOf = (id: string): string => createHmac('sha256', id).update('dormouse-agent').digest('hex')

function refuseMachine(stateDir: string): never {
  throw new StartError(
    `the state folder ${stateDir} belongs to another machine, and two machines with one key would harm their desktops. If the disks were moved here and the other machine stays off, start once with DORMOUSE_AGENT_ADOPT=true; otherwise use an empty folder and enrol this machine (\`dormouse admin host invite\`)`,
  )
}
