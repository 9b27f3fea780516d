// cp -r into a desktop: every file and folder with its mode, and on after an interruption.
import { openAsBlob } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Client } from '@dormouse/client'
import type { Context } from '../context.ts'
import type { GuestPlace } from '../guest-place.ts'
import type { Progress } from '../progress.ts'
import { fewAtOnce, look, octalOf, oneRequestMaxBytes, persistently, type Tree, unreadable } from './copying.ts'

interface Found {
  /** With slashes, below the folder; empty for the folder itself. */
  name: string
  size: number
  mode: number
}

interface Local {
  folders: Found[]
  files: Found[]
  skipped: string[]
}

/** `to.path` becomes the folder, whether or not it exists. */
export async function copyFolderIn(context: Context, from: string, to: GuestPlace): Promise<Tree> {
  const local: Local = { folders: [], files: [], skipped: [] }
  await walk(from, '', local)
  const size = local.files.reduce((sum, file) => sum + file.size, 0)
  const target = `/${to.path.replace(/^\/+|\/+$/g, '')}`
  const progress = context.terminal.progress(from, size)
  const [client, { signal }] = [context.customer(), context.terminal]
  try {
    for (const { name, mode } of local.folders) {
      const body = { action: 'mkdir' as const, path: guestPath(target, name), mode: octalOf(mode) }
      await persistently(signal, () => client.changeEntry(to.id, body, { signal }))
    }
    await fewAtOnce(local.files, (file) =>
      send(client, to.id, join(from, file.name), guestPath(target, file.name), file),
    )
  } finally {
    progress.end()
  }
  const { folders, files, skipped } = local
  return { path: target, files: files.length, folders: folders.length, size, skipped }

  async function send(client: Client, id: string, source: string, path: string, { size, mode }: Found): Promise<void> {
    if (size > oneRequestMaxBytes) return sendInParts(client, id, source, path, mode, progress, signal)
    const bytes = await readFile(source).catch((error: NodeJS.ErrnoException) => {
      throw unreadable(source, error)
    })
    await persistently(signal, () => client.writeFile(id, path, bytes, { mode: octalOf(mode), signal }))
    progress.add(size)
  }
}

async function sendInParts(
  client: Client,
  id: string,
  source: string,
  path: string,
  mode: number,
  progress: Progress,
  signal: AbortSignal,
): Promise<void> {
  const blob = await openAsBlob(source)
  let sent = 0
  const onProgress = (offset: number) => {
    progress.add(offset - sent)
    sent = offset
  }
  await client.upload(id, path, blob, { mode: octalOf(mode), retries: 10, onProgress, signal })
}

const guestPath = (folder: string, name: string) => (name === '' ? folder : `${folder === '/' ? '' : folder}/${name}`)

/** Folders come before what is in them. Links are not followed. */
async function walk(root: string, name: string, found: Local): Promise<void> {
  const { mode } = await look(join(root, name))
  found.folders.push({ name, size: 0, mode })
  const entries = await readdir(join(root, name), { withFileTypes: true }).catch((error: NodeJS.ErrnoException) => {
    throw unreadable(join(root, name), error)
  })
  for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
    const below = name === '' ? entry.name : `${name}/${entry.name}`
    if (entry.name.includes('\ufffd')) found.skipped.push(below)
    else if (entry.isDirectory()) await walk(root, below, found)
    else if (entry.isFile()) found.files.push({ name: below, ...(await look(join(root, below))) })
    else found.skipped.push(below)
  }
}
