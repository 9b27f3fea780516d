// The simulated hypervisor's state: one small file per domain and per disk. So an agent that is killed leaves its desktops
// "running", as QEMU would.
import { mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
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

/** A folder of JSON files. Each is written whole or not at all, and read again only when the file has changed. */
export class JsonFolder<T> {
  readonly #folder: string
  readonly #schema: z.ZodType<T>
  readonly #known = new Map<DesktopId, { file: string; value: T }>()

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
    const path = this.#path(desktopId)
    const stat = statSync(path, { bigint: true, throwIfNoEntry: false })
    const file = stat && `${stat.ino} ${stat.mtimeNs} ${stat.size}`
    const known = this.#known.get(desktopId)
    if (known?.file === file) return known?.value
    this.#known.delete(desktopId)
    if (!file) return undefined
    try {
      const value = this.#schema.parse(JSON.parse(readFileSync(path, 'utf8')))
      this.#known.set(desktopId, { file, value })
      return value
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
      throw error
    }
  }

  write(desktopId: DesktopId, value: T): void {
    const temporary = `${this.#path(desktopId)}.tmp`
    writeFileSync(temporary, JSON.stringify(value))
    renameSync(temporary, this.#path(desktopId))
  }

  remove(desktopId: DesktopId): void {
    rmSync(this.#path(desktopId), { force: true })
  }

  #path(desktopId: DesktopId): string {
    return join(this.#folder, `${desktopId}.json`)
  }
}
