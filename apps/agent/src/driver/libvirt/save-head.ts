// The head of a file in which libvirt has saved a guest: the domain's XML, and a cookie of libvirt's. It is followed by QEMU's
// stream, which begins if it did when the head is rewritten. So a copy of the file can be restored as another domain.
import { open } from 'node:fs/promises'
import { refuse } from '@dormouse/contract'
import { headerBytes, wholeMagic } from '../saved-file.ts'
import { replaceTuning } from './tuning.ts'

/** Numbers of four bytes follow the magic: version, length of the text, whether it ran, compression, where the cookie begins. */
export const lengthAt = wholeMagic.length + 4
export const cookieAt = wholeMagic.length + 16
export const maxTextBytes = 1024 * 1024

/** Renames the domain in the file. The rest of the XML stays: a restore replaces what of it is the host's. */
export function rename(path: string, { name, uuid }: { name: string; uuid: string }): Promise<void> {
  return rewriteText(path, (text, cookie) => renamedText(text, cookie, { name, uuid }))
}

/** Leaves out what limits the domain. */
export function blankTuning(path: string): Promise<void> {
  return rewriteText(path, (text, cookie) => ({ text: blankedText(text, cookie), cookie }))
}

async function rewriteText(
  path: string,
  rewritten: (text: Buffer, cookie: number) => { text: Buffer; cookie: number },
): Promise<void> {
  const file = await open(path, 'r+')
  try {
    const header = Buffer.alloc(headerBytes)
    await file.read(header, 0, headerBytes, 0)
    if (header.toString('latin1', 0, wholeMagic.length) !== wholeMagic) damaged('its magic is not that of a whole file')
    const [length, cookie] = [header.readUInt32LE(lengthAt), header.readUInt32LE(cookieAt)]
    if (length > maxTextBytes || cookie >= length) damaged('the length of its XML is not valid')
    const text = Buffer.alloc(length)
    if ((await file.read(text, 0, length, headerBytes)).bytesRead < length) damaged('it ends in its XML')
    const after = rewritten(text, cookie)
    if (after.text.equals(text)) return
    header.writeUInt32LE(after.cookie, cookieAt)
    await file.write(Buffer.concat([header, after.text]), 0, headerBytes + length, 0)
  } finally {
    await file.close()
  }
}

/** Spaces in place of what is left out. */
export function blankedText(text: Buffer, cookie: number): Buffer {
  const end = cookie || text.length
  const [xml, rest] = [text.toString('latin1', 0, end), text.toString('latin1', end)]
  return Buffer.from(replaceTuning(xml, (element) => ' '.repeat(element.length)) + rest, 'latin1')
}

/** As long as before. */
export function renamedText(
  text: Buffer,
  cookie: number,
  { name, uuid }: { name: string; uuid: string },
): { text: Buffer; cookie: number } {
  const end = cookie || text.length
  const xml = untilNul(text.subarray(0, end)).toString('utf8')
  const renamed = xml
    .replace(/<name>[^<]*<\/name>/, `<name>${name}</name>`)
    .replace(/<uuid>[^<]*<\/uuid>/, `<uuid>${uuid}</uuid>`)
  if (!renamed.includes(`<uuid>${uuid}</uuid>`)) damaged('its XML has no UUID')
  const head = Buffer.from(`${renamed}\0`)
  const rest = cookie ? Buffer.concat([untilNul(text.subarray(cookie)), Buffer.alloc(1)]) : Buffer.alloc(0)
  const padding = text.length - head.length - rest.length
  if (padding < 0) damaged('its head has no room for another name')
  return { text: Buffer.concat([head, rest, Buffer.alloc(padding)]), cookie: cookie ? head.length : 0 }
}

function untilNul(text: Buffer): Buffer {
  const end = text.indexOf(0)
  return end < 0 ? text : text.subarray(0, end)
}

const damaged = (why: string): never => refuse('hypervisor_failed', `the saved memory cannot be used: ${why}`)
