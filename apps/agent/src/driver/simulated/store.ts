// The simulated hypervisor's state: one small file per domain and per disk. So an agent that is killed leaves its desktops
// "running", as QEMU would. A power cut ends them, as it would end QEMU, so nothing is synced.
import {
  appendFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs'
import { type DesktopId, desktopSpec, id, shares } from '@dormouse/contract'
import { z } from 'zod'

/** What is in a guest's memory besides its files and processes: lost with its domain, saved and restored with its image. */
export const guestMemory = z.object({
  bootId: z.string(),
  /** The guest's clock less the host's. */
  clockOffsetMs: z.number(),
  /** Whether it has requested its address. */
  hasAddress: z.boolean(),
})

const mark = z.object({ installationId: id, desktopId: id, generation: z.int(), turn: z.int(), operationId: id })
export const simulatedDomain = z.object({
  mark,
  spec: desktopSpec,
  state: z.enum(['running', 'paused']),
  /** Paused because its disk could not grow. */
  outOfSpace: z.boolean().default(false),
  /** Paused because its guest has suspended itself. */
  suspended: z.boolean().optional(),
  /** Its guest waits in suspend-to-idle: it runs, and answers nothing until it is roused. */
  idles: z.boolean().optional(),
  /** Whether it has a port on the network. */
  nic: z.boolean().default(true),
  /** It has not run since its memory was saved. */
  kept: z.boolean().optional(),
  /** It has no clipboard, and the kernel ends it before others: so a save leaves it that keeps it. */
  stripped: z.boolean().optional(),
  /** Host time in ms at which the vCPUs last began to run; null while paused. */
  runningSince: z.number().nullable(),
  memory: guestMemory,
  shares: shares.optional(),
})
export type SimulatedDomain = z.infer<typeof simulatedDomain>

export const simulatedDisk = z.object({
  spec: desktopSpec,
  /** It is being made, or making it was interrupted. */
  half: z.literal(true).optional(),
})
export type SimulatedDisk = z.infer<typeof simulatedDisk>

/** A file is unchanged while these are. */
interface Version {
  ino: number
  size: number
  mtimeMs: number
}

/** Below this size, a file keeps its older lines. */
const smallBytes = 64 * 1024

/**
 * A folder of files. A change is appended as one line, so a process that is killed while it writes leaves the line before.
 * A file that has grown is written anew and renamed. It is read again only when it has changed.
 */
export class JsonFolder<T> {
  readonly #folder: string
  /** Null if it has ended. */
  readonly #schema: z.ZodType<T | null>
  /** What was read or written last, undefined if it has ended; `whole` if the file ends with a line feed. */
  readonly #known = new Map<DesktopId, { version: Version; value: T | undefined; whole: boolean }>()

  constructor(folder: string, schema: z.ZodType<T>) {
    this.#folder = folder
    this.#schema = schema.nullable()
    mkdirSync(folder, { recursive: true, mode: 0o700 })
  }

  /** Those with a file. Some may have ended. */
  list(): DesktopId[] {
    return readdirSync(this.#folder)
      .filter((name) => name.endsWith('.json'))
      .map((name) => name.slice(0, -'.json'.length))
  }

  read(desktopId: DesktopId): T | undefined {
    const file = this.#stat(desktopId)
    const known = this.#known.get(desktopId)
    if (known && file && isSame(known.version, file)) return known.value
    this.#known.delete(desktopId)
    if (!file) return undefined
    try {
      const text = readFileSync(this.#path(desktopId), 'utf8')
      const value = this.#schema.parse(JSON.parse(lastLine(text))) ?? undefined
      this.#known.set(desktopId, { version: file, value, whole: text.endsWith('\n') })
      return value
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
      // A process was killed while it wrote the first line.
      if (error instanceof SyntaxError) return undefined
      throw error
    }
  }

  write(desktopId: DesktopId, value: T): void {
    this.#write(desktopId, value)
  }

  /** Like `remove`, but keeps the file for what is likely to follow: it costs less to add a line than to make a file. */
  end(desktopId: DesktopId): void {
    if (this.read(desktopId)) this.#write(desktopId, undefined)
  }

  #write(desktopId: DesktopId, value: T | undefined): void {
    const path = this.#path(desktopId)
    const line = `${JSON.stringify(value ?? null)}\n`
    const old = this.#stat(desktopId)
    const known = this.#known.get(desktopId)
    const mayAppend = known?.whole && old && isSame(known.version, old) && old.size + line.length < smallBytes
    if (mayAppend) appendFileSync(path, line)
    else if (!old) writeFileSync(path, line)
    else {
      writeFileSync(`${path}.tmp`, line)
      renameSync(`${path}.tmp`, path)
    }
    this.#known.set(desktopId, { version: this.#stat(desktopId)!, value, whole: true })
  }

  remove(desktopId: DesktopId): void {
    if (this.#stat(desktopId)) unlinkSync(this.#path(desktopId))
    this.#known.delete(desktopId)
  }

  #stat(desktopId: DesktopId): Version | undefined {
    return statSync(this.#path(desktopId), { throwIfNoEntry: false })
  }

  #path(desktopId: DesktopId): string {
    return `${this.#folder}/${desktopId}.json`
  }
}

const isSame = (a: Version, b: Version) => a.mtimeMs === b.mtimeMs && a.size === b.size && a.ino === b.ino

/** The last line that is whole. */
function lastLine(text: string): string {
  const end = text.lastIndexOf('\n')
  return text.slice(text.lastIndexOf('\n', end - 1) + 1, Math.max(0, end))
}
