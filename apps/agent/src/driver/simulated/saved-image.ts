// A file of saved memory as the simulated hypervisor writes it: libvirt's header, then the domain as JSON, and the files in its guest's memory.
import { closeSync, openSync, readFileSync, writeSync } from 'node:fs'
import { refuse } from '@dormouse/contract'
import { z } from 'zod'
import { headerBytes, partialMagic, wholeMagic } from '../saved-file.ts'
import { packed, unpacked } from './packed.ts'
import { simulatedDomain } from './store.ts'

const saved = z.object({
  domain: simulatedDomain,
  /** Tells saves apart: the processes of the last one may still be there. */
  savedAs: z.string(),
})
export interface SavedMemory extends z.infer<typeof saved> {
  /** An archive of what is in memory, if the guest was ever called. */
  files?: Buffer
}

function header(magic: string): Buffer {
  const bytes = Buffer.alloc(headerBytes)
  bytes.write(magic, 'latin1')
  return bytes
}

/** Writes the file as partial, awaits `beforeWhole`, then marks it as whole. */
export async function writeSaved(
  path: string,
  { files, ...head }: SavedMemory,
  beforeWhole: () => Promise<void>,
): Promise<void> {
  const file = openSync(path, 'w', 0o600)
  try {
    writeSync(file, Buffer.concat([header(partialMagic), packed(head, files)]))
    await beforeWhole()
    writeSync(file, header(wholeMagic), 0, headerBytes, 0)
  } finally {
    closeSync(file)
  }
}

/** What was saved; `memory_image_damaged` if the file is not whole. */
export function readSaved(path: string): SavedMemory {
  const bytes = readFileSync(path)
  if (bytes.toString('latin1', 0, wholeMagic.length) !== wholeMagic) damaged('its header is not that of a whole image')
  try {
    const { head, archive } = unpacked(bytes.subarray(headerBytes))
    return { ...saved.parse(head), ...(archive.length > 0 && { files: archive }) }
  } catch {
    return damaged('its content cannot be read')
  }
}

function damaged(why: string): never {
  refuse(
    'memory_image_damaged',
    `the saved memory cannot be restored: ${why}; it is kept; wake with discard_memory to boot from disk`,
  )
}
