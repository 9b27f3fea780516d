// Tar archives for tests.
import { buffer } from 'node:stream/consumers'
import { type Header, pack } from 'tar-stream'

export type Given = Partial<Header> & Pick<Header, 'name'> & { body?: string }

export async function archiveOf(...entries: Given[]): Promise<Buffer> {
  const archive = pack()
  for (const { body, ...header } of entries) archive.entry(header, body ?? '')
  archive.finalize()
  return buffer(archive)
}
