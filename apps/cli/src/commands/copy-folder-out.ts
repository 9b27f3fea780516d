// cp -r out of a desktop: every file and folder with its mode, as one tar archive.
import { mkdir } from 'node:fs/promises'
import type { Context } from '../context.ts'
import type { GuestPlace } from '../guest-place.ts'
import { localFailure, persistently, type Tree } from './copying.ts'
import { unpack } from './unpack.ts'

/** `to` becomes the folder, whether or not it exists. Begins again after an interruption. */
export async function copyFolderOut(context: Context, from: GuestPlace, to: string): Promise<Tree> {
  const { signal } = context.terminal
  const client = context.customer()
  const root = `/${from.path.replace(/^\/+|\/+$/g, '')}`
  const progress = context.terminal.progress(root)
  const attempt = async () => {
    let come = 0
    const add = (bytes: number) => {
      come += bytes
      progress.add(bytes)
    }
    const archive = await client.readArchive(from.id, root, { signal })
    try {
      await mkdir(to, { recursive: true })
      return await unpack(archive, to, { add, signal })
    } catch (error) {
      progress.add(-come)
      await archive.cancel().catch(() => undefined)
      signal.throwIfAborted()
      throw localFailure(error)
    }
  }
  try {
    return await persistently(signal, attempt)
  } finally {
    progress.end()
  }
}
