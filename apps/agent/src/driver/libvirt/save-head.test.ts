// Guarantee: a file of libvirt's names another domain afterwards, with its cookie and its stream at the same places; and a file
// that is not whole is refused.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { headerBytes, partialMagic, wholeMagic } from '../saved-file.ts'
import { cookieAt, lengthAt, rename } from './save-head.ts'
import { savedCpu } from './saved-cpu.ts'

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'dormouse-save-head-'))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const xml = `<domain type='qemu'><name>template</name><uuid>1</uuid><memory unit='KiB'>1</memory></domain>`
const cookie = '<cookie><cpu><model>qemu64</model></cpu></cookie>'
const stream = Buffer.from('the stream of QEMU')
const named = { name: 'a-desktop-with-a-much-longer-name', uuid: '01a20a2f-fa5b-7a3a-92b2-f7215b07c7a8' }

function saved({ padding = 200, magic = wholeMagic, withCookie = true, length = 0 } = {}): string {
  const head = Buffer.from(`${xml}\0`)
  const text = Buffer.concat([head, Buffer.from(withCookie ? `${cookie}\0` : ''), Buffer.alloc(padding)])
  const header = Buffer.alloc(headerBytes)
  header.write(magic, 'latin1')
  header.writeUInt32LE(length || text.length, lengthAt)
  header.writeUInt32LE(withCookie ? head.length : 0, cookieAt)
  const path = join(folder, 'saved')
  writeFileSync(path, Buffer.concat([header, text, stream]))
  return path
}

test.each([true, false])(
  'it names the other domain, and the rest stays as it was (with a cookie: %s)',
  async (withCookie) => {
    const path = saved({ withCookie })
    const before = readFileSync(path)
    await rename(path, named)
    const after = readFileSync(path)
    expect(after.length).toBe(before.length)
    expect(after.subarray(-stream.length)).toEqual(stream)
    const text = after.subarray(headerBytes)
    expect(text.subarray(0, text.indexOf(0)).toString()).toBe(
      xml.replace('>template<', `>${named.name}<`).replace('>1</uuid>', `>${named.uuid}</uuid>`),
    )
    expect(await savedCpu(path)).toBe(withCookie ? '<cpu><model>qemu64</model></cpu>' : undefined)
  },
)

test.each<[string, Parameters<typeof saved>[0]]>([
  ['is not whole', { magic: partialMagic }],
  ['has no room for the name', { padding: 4 }],
  ['ends in its head', { length: 5_000 }],
  ['has a length that cannot be', { length: 0xffffffff }],
])('a file that %s is refused, and stays as it is', async (_what, options) => {
  const path = saved(options)
  const before = readFileSync(path)
  await expect(rename(path, named)).rejects.toMatchObject({ code: 'hypervisor_failed' })
  expect(readFileSync(path)).toEqual(before)
})
