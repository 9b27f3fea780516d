// Disk space that is reserved for work that frees space. Without it a full disk could not be emptied: even a removal
// writes to a file first. The reserve is small files. Using one means overwriting and renaming it, which needs no free
// block, so nothing else can take the space first.
import { randomBytes, randomUUID } from 'node:crypto'
import { open, readdir, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { privateFolder, syncPath, unlessMissing } from './durable-file.ts'
import { isFull } from './full-disk.ts'

const pieceBytes = 4_096
const pieceCount = 64

export class Reserve {
  readonly #folder: string
  readonly #pieces: string[] = []
  #filling: Promise<boolean> | undefined

  private constructor(folder: string) {
    this.#folder = folder
  }

  /** Finds the files of an earlier process, and makes the missing ones where there is space. */
  static async open(folder: string): Promise<Reserve> {
    const reserve = new Reserve(folder)
    const names = (await readdir(folder).catch(unlessMissing)) ?? []
    for (const name of names) await reserve.#find(join(folder, name))
    // An error of the folder is reported by the next refill, and by the first write.
    await reserve.refill().catch(() => undefined)
    return reserve
  }

  get isWhole(): boolean {
    return this.#pieces.length >= pieceCount
  }

  /** Makes the missing files; false where the disk has no space for them. */
  async refill(): Promise<boolean> {
    if (this.isWhole) return true
    this.#filling ??= this.#fill().finally(() => {
      this.#filling = undefined
    })
    return this.#filling
  }

  /** Writes a small file although the disk is full; it is on the disk when this returns. */
  async write(path: string, text: string): Promise<void> {
    let full: unknown
    for (let piece = this.#pieces.pop(); piece; piece = this.#pieces.pop()) {
      try {
        await writeOver(piece, text)
        await rename(piece, path)
        return await syncPath(dirname(path))
      } catch (error) {
        // A copy-on-write file system has space once a piece is removed.
        await rm(piece, { force: true })
        if (!isFull(error)) throw error
        full = error
      }
    }
    throw full ?? Object.assign(new Error('the reserve is used up'), { code: 'ENOSPC' })
  }

  async #find(path: string): Promise<void> {
    if ((await stat(path)).size === pieceBytes) this.#pieces.push(path)
    else await rm(path, { force: true })
  }

  async #fill(): Promise<boolean> {
    try {
      await privateFolder(this.#folder)
      while (!this.isWhole) this.#pieces.push(await makePiece(join(this.#folder, randomUUID())))
      return true
    } catch (error) {
      if (isFull(error)) return false
      throw error
    }
  }
}

/** Random content, so that no file system compresses it. */
async function makePiece(path: string): Promise<string> {
  try {
    const file = await open(path, 'wx', 0o600)
    try {
      await file.writeFile(randomBytes(pieceBytes))
      await file.sync()
    } finally {
      await file.close()
    }
    return path
  } catch (error) {
    await rm(path, { force: true })
    throw error
  }
}

async function writeOver(path: string, text: string): Promise<void> {
  const file = await open(path, 'r+')
  try {
    const { bytesWritten } = await file.write(text, 0)
    if (bytesWritten < Buffer.byteLength(text)) throw Object.assign(new Error('cut short'), { code: 'ENOSPC' })
    await file.truncate(bytesWritten)
    await file.sync()
  } finally {
    await file.close()
  }
}
