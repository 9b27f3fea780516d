// Room on the disk that is set aside for what makes room: without it a full disk could not be emptied any more, for even
// a destroy writes its journal first. It is held in small files. To use one is to write over it and to rename it, which
// takes no block of the disk, so that no guest can be quicker.
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

  /** Finds what an agent before this one has set aside, and makes what is missing where there is room. */
  static async open(folder: string): Promise<Reserve> {
    const reserve = new Reserve(folder)
    const names = (await readdir(folder).catch(unlessMissing)) ?? []
    for (const name of names) await reserve.#find(join(folder, name))
    // What is wrong with the folder is said when it is tended, and by the first write.
    await reserve.refill().catch(() => undefined)
    return reserve
  }

  get isWhole(): boolean {
    return this.#pieces.length >= pieceCount
  }

  /** Makes what is missing; false where the disk has no room for it. */
  async refill(): Promise<boolean> {
    if (this.isWhole) return true
    this.#filling ??= this.#fill().finally(() => {
      this.#filling = undefined
    })
    return this.#filling
  }

  /** Puts a small file in its place although the disk is full; it is on the disk when this returns. */
  async write(path: string, text: string): Promise<void> {
    let full: unknown
    for (let piece = this.#pieces.pop(); piece; piece = this.#pieces.pop()) {
      try {
        await writeOver(piece, text)
        await rename(piece, path)
        return await syncPath(dirname(path))
      } catch (error) {
        // A file system that copies what is written over finds room once a piece is gone.
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

/** Random, so that no file system saves the room for it. */
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
