// A file of saved memory as the simulated hypervisor writes it: libvirt's header, then the guest's memory as JSON.
import { closeSync, openSync, readFileSync, writeSync } from 'node:fs'
import { refuse } from '@dormouse/contract'
import { z } from 'zod'
import { parseJson } from '../../mechanics/parse-json.ts'
import { headerBytes, partialMagic, wholeMagic } from '../saved-file.ts'
import { type SimulatedDomain, simulatedDomain } from './store.ts'

function header(magic: string): Buffer {
  const bytes = Buffer.alloc(headerBytes)
  bytes.write(magic, 'latin1')
  return bytes
}

/** Writes the file as partial, awaits `beforeWhole`, then marks it as whole. */
export async function writeSaved(
  path: string,
  domain: SimulatedDomain,
  beforeWhole: () => Promise<void>,
): Promise<void> {
  const file = openSync(path, 'w', 0o600)
  try {
    writeSync(file, Buffer.concat([header(partialMagic), Buffer.from(JSON.stringify(domain))]))
    await beforeWhole()
    writeSync(file, header(wholeMagic), 0, headerBytes, 0)
  } finally {
    closeSync(file)
  }
}

/** What was saved; `memory_image_damaged` if the file is not whole. */
export function readSaved(path: string): SimulatedDomain {
  const bytes = readFileSync(path)
  if (bytes.toString('latin1', 0, wholeMagic.length) !== wholeMagic) damaged('its header is not that of a whole image')
  const parsed = z.string().transform(parseJson).pipe(simulatedDomain).safeParse(bytes.toString('utf8', headerBytes))
  return parsed.success ? parsed.data : damaged('its content cannot be read')
}

function damaged(why: string): never {
  refuse(
    'memory_image_damaged',
    `the saved memory cannot be restored: ${why}; it is kept; wake with discard_memory to boot from disk`,
  )
}
