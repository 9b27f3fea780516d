// The CPU that a saved guest has got: libvirt keeps it behind the domain's XML in the file. Each number is checked, since the
// file may come from another host.
import { open } from 'node:fs/promises'
import { headerBytes, wholeMagic } from '../saved-file.ts'
import { cookieAt, lengthAt, maxTextBytes } from './save-head.ts'

/** The `<cpu>` of the guest; undefined if the file has none. */
export async function savedCpu(path: string): Promise<string | undefined> {
  const file = await open(path, 'r')
  try {
    const header = Buffer.alloc(headerBytes)
    await file.read(header, 0, headerBytes, 0)
    const [length, cookie] = [header.readUInt32LE(lengthAt), header.readUInt32LE(cookieAt)]
    if (header.toString('latin1', 0, wholeMagic.length) !== wholeMagic) return undefined
    if (cookie === 0 || length > maxTextBytes || cookie >= length) return undefined
    const text = Buffer.alloc(length - cookie)
    await file.read(text, 0, text.length, headerBytes + cookie)
    return cpuOf(text.toString('utf8'))
  } finally {
    await file.close()
  }
}

/** The `<cpu>` in a text. */
export const cpuOf = (xml: string): string | undefined => /<cpu\b[\s\S]*?<\/cpu>/.exec(xml)?.[0]
