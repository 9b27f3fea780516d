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
import { join } from 'node:path'
import { type DesktopId, desktopSpec, id } from '@dormouse/contract'
import { z } from 'zod'

/** What a guest holds in memory: lost with its process, saved and restored with its image. */
export const guestMemory = z.object({
  bootId: z.string(),
  /** Time awake up to `runningSince`. */
  awakeMs: z.number(),
  /** The guest's clock less the host's. */
  clockOffsetMs: z.number(),
  files: z.record(z.string(), z.string()),
})

const mark = z.object({ installationId: id, desktopId: id, generation: z.int(), turn: z.int(), operationId: id })
export const simulatedDomain = z.object({
  mark,
  spec: desktopSpec,
  state: z.enum(['running', 'paused']),
  /** Paused because its disk could not grow. */
  outOfSpace: z.boolean().default(false),
  /** Host time in ms at which the vCPUs last began to run; null while paused. */
  runningSince: z.number().nullable(),
  memory: guestMemory,
})
export type SimulatedDomain = z.infer<typeof simulatedDomain>

export const simulatedDisk = z.object({
  spec: desktopSpec,
  files: z.record(z.string(), z.string()),
  /** It is being made, or making it was interrupted. */
  half: z.literal(true).optional(),
})
export type SimulatedDisk = z.infer<typeof simulatedDisk>

/** Below this size, a file keeps its older lines. */
const smallBytes = 64 * 1024

/**
 * A folder of files. A change is appended as one line, so a process that is killed while it writes leaves the line before.
 * A file that has grown is written anew and renamed. It is read again only when it has changed.
 */
export class JsonFolder<T> {
  readonly #folder: string
  readonly #schema: z.ZodType<T>
  /** What was read or written last; `whole` where the file ends with a line feed. */
  readonly #known = new Map<DesktopId, { version: string; value: T; whole: boolean }>()

  constructor(folder: string, schema: z.ZodType<T>) {
    this.#folder = folder
    this.#schema = schema
    mkdirSync(folder, { recursive: true, mode: 0o700 })
  }

  list(): DesktopId[] {
    return readdirSync(this.#folder)
      .filter((name) => name.endsWith('.json'))
      .map((name) => name.slice(0, -'.json'.length))
  }

  read(desktopId: DesktopId): T | undefined {
    const file = this.#stat(desktopId)
    const known = this.#known.get(desktopId)
    if (known && known.version === file?.version) return known.value
    this.#known.delete(desktopId)
    if (!file) return undefined
    try {
      const text = readFileSync(this.#path(desktopId), 'utf8')
      const value = this.#schema.parse(JSON.parse(lastLine(text)))
      this.#known.set(desktopId, { version: file.version, value, whole: text.endsWith('\n') })
      return value
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
      // A process was killed while it wrote the first line.
      if (error instanceof SyntaxError) return undefined
      throw error
    }
  }

  write(desktopId: DesktopId, value: T): void {
    const path = this.#path(desktopId)
    const line = `${JSON.stringify(value)}\n`
    const old = this.#stat(desktopId)
    const known = this.#known.get(desktopId)
    const mayAppend = known?.whole && known.version === old?.version && old.size + line.length < smallBytes
    if (mayAppend) appendFileSync(path, line)
    else if (!old) writeFileSync(path, line)
    else {
      writeFileSync(`${path}.tmp`, line)
      renameSync(`${path}.tmp`, path)
    }
    this.#known.set(desktopId, { version: this.#stat(desktopId)!.version, value, whole: true })
  }

  remove(desktopId: DesktopId): void {
    if (this.#stat(desktopId)) unlinkSync(this.#path(desktopId))
    this.#known.delete(desktopId)
  }

  #stat(desktopId: DesktopId): { size: number; version: string } | undefined {
    const stat = statSync(this.#path(desktopId), { bigint: true, throwIfNoEntry: false })
    return stat && { size: Number(stat.size), version: `${stat.ino} ${stat.mtimeNs} ${stat.size}` }
  }

  #path(desktopId: DesktopId): string {
    return join(this.#folder, `${desktopId}.json`)
  }
}

/** The last line that is whole. The release before wrote one without a line feed. */
function lastLine(text: string): string {
  const end = text.lastIndexOf('\n')
  return end < 0 ? text : text.slice(text.lastIndexOf('\n', end - 1) + 1, end)
}
