// Archives of a simulated guest's folders: packed from its store, and unpacked into it, without owners, modes or links.
import { buffer } from 'node:stream/consumers'
import { refuse } from '@dormouse/contract'
import { extract, pack } from 'tar-stream'
import type { FileStore } from './entries.ts'
import { asBytes, asText, isFolder } from './files.ts'

export function packSimulated(store: FileStore, path: string): Promise<Buffer> {
  if (store.read(path) !== undefined) refuse('not_directory', 'the path is not a directory in the guest')
  if (!isFolder(store.paths(), path)) refuse('file_not_found', 'there is no such folder in the guest')
  const archive = pack()
  archive.entry({ name: './', type: 'directory', mode: 0o755 })
  const start = path === '/' ? path : `${path}/`
  for (const each of store
    .paths()
    .filter((each) => each.startsWith(start) && each !== start)
    .sort()) {
    const name = `./${each.slice(start.length)}`
    if (each.endsWith('/')) archive.entry({ name, type: 'directory', mode: 0o755 })
    else archive.entry({ name, mode: 0o644 }, asBytes(store.read(each)!))
  }
  archive.finalize()
  return buffer(archive)
}

export async function unpackSimulated(store: FileStore, path: string, archive: Buffer): Promise<void> {
  const found: [path: string, text: string][] = [[`${path}/`, '']]
  const unpacking = extract()
  unpacking.end(archive)
  try {
    for await (const entry of unpacking) {
      const { name, type } = entry.header
      const target = `${path}/${name.replace(/^\.\/|\/$/g, '')}`
      const bytes = await buffer(entry)
      if (type === 'file') found.push([target, asText(bytes)])
      else if (type === 'directory' && target !== `${path}/`) found.push([`${target}/`, ''])
    }
  } catch {
    refuse('invalid_request', 'body must be a tar archive')
  }
  for (const [target, text] of found) store.write(target, text)
}
