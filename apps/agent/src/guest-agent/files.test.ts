// Guarantee: through the guest agent a file is there whole or not at all, whatever its name, and what the file system
// refuses has its name.
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { LocalAgent } from '../testing/local-agent.ts'
import { GuestAgentTransport } from './transport.ts'

const shells = ['/bin/dash', '/bin/bash'].filter((shell) => existsSync(shell))

let folder = ''
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'dormouse-files-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

describe.each(shells)('under %s', (shell) => {
  const guest = () => {
    const agent = new LocalAgent(shell)
    const transport = new GuestAgentTransport(agent.call)
    const write = async (path: string, bytes: Buffer, mode: number | null = null) => {
      const upload = await transport.createFile(path, mode)
      await upload.write(bytes)
      return upload.commit()
    }
    const read = async (path: string) => {
      const file = await transport.openFile(path)
      const parts: Buffer[] = []
      for (let part = await file.read(); part; part = await file.read()) parts.push(part)
      await file.close()
      return Buffer.concat(parts)
    }
    return { agent, transport, write, read }
  }
  const hidden = (path = folder) => readdirSync(path).filter((name) => name.startsWith('.dormouse-'))

  test.each([
    'plain',
    'with spaces  and "quotes" and \'these\'',
    'new\nline\n',
    'schön 🐹',
    '-rf',
    '$HOME `id` *',
    'x'.repeat(255),
  ])('%j is read as it was written, below folders that are created', async (name) => {
    const { write, read, agent } = guest()
    const path = join(folder, 'a b', name.slice(0, 200), name)
    const bytes = randomBytes(200_000)
    expect(await write(path, bytes)).toBe(bytes.length)
    expect((await read(path)).equals(bytes)).toBe(true)
    expect(statSync(path).mode & 0o7777).toBe(0o644)
    expect(hidden(join(folder, 'a b', name.slice(0, 200)))).toEqual([])
    expect([agent.openFiles, agent.largest < 64 * 1024]).toEqual([0, true])
  })

  test('a file is visible only once it is whole, and an abandoned one leaves nothing', async () => {
    const { transport } = guest()
    const path = join(folder, 'file')
    writeFileSync(path, 'old')
    const upload = await transport.createFile(path, null)
    await upload.write(Buffer.from('ne'))
    expect(readFileSync(path, 'utf8')).toBe('old')
    await upload.abandon()
    expect([readFileSync(path, 'utf8'), hidden()]).toEqual(['old', []])
  })

  test('a disk that is full when the last bytes are written refuses the file, and the old one stays', async () => {
    const { transport, agent } = guest()
    const path = join(folder, 'file')
    writeFileSync(path, 'old')
    const upload = await transport.createFile(path, null)
    await upload.write(Buffer.from('new'))
    agent.full = true
    await expect(upload.commit()).rejects.toMatchObject({ code: 'no_space' })
    await upload.abandon()
    expect([readFileSync(path, 'utf8'), hidden(), agent.openFiles]).toEqual(['old', [], 0])
  })

  test('a given mode is set; without one the mode stays as it was', async () => {
    const { write } = guest()
    const path = join(folder, 'file')
    await write(path, Buffer.from('x'), 0o750)
    expect(statSync(path).mode & 0o7777).toBe(0o750)
    chmodSync(path, 0o600)
    await write(path, Buffer.from('y'))
    expect([statSync(path).mode & 0o7777, readFileSync(path, 'utf8')]).toEqual([0o600, 'y'])
  })

  test('a link stays a link: its target is written, and created where it is missing', async () => {
    const { write, read } = guest()
    mkdirSync(join(folder, 'real'))
    symlinkSync('real/target\n', join(folder, 'link'))
    symlinkSync(join(folder, 'link'), join(folder, 'second'))
    await write(join(folder, 'second'), Buffer.from('x'))
    expect(lstatSync(join(folder, 'link')).isSymbolicLink()).toBe(true)
    expect(readFileSync(join(folder, 'real/target\n'), 'utf8')).toBe('x')
    expect((await read(join(folder, 'second'))).toString()).toBe('x')
  })

  test('a path that is not a file to write or read is refused with its reason', async () => {
    const { write, read, agent } = guest()
    mkdirSync(join(folder, 'dir'))
    writeFileSync(join(folder, 'file'), '')
    symlinkSync('loop', join(folder, 'loop'))
    symlinkSync('one', join(folder, 'other'))
    symlinkSync('other', join(folder, 'one'))
    execFileSync('mkfifo', [join(folder, 'fifo')])
    const writing: [path: string, code: string][] = [
      ['dir', 'is_directory'],
      ['file/below', 'not_directory'],
      ['file/below/more', 'not_directory'],
      ['loop', 'symlink_loop'],
      ['one', 'symlink_loop'],
      ['one/below', 'symlink_loop'],
      ['fifo', 'not_regular'],
    ]
    for (const [path, code] of writing) {
      const refused = await write(join(folder, path), Buffer.from('x')).catch((error) => error.code)
      expect([path, refused]).toEqual([path, code])
    }
    const reading: [path: string, code: string][] = [
      ['dir', 'is_directory'],
      ['missing', 'file_not_found'],
      ['file/below', 'file_not_found'],
      ['loop', 'symlink_loop'],
      ['one/below', 'symlink_loop'],
      ['fifo', 'not_regular'],
    ]
    for (const [path, code] of reading) {
      const refused = await read(join(folder, path)).catch((error) => error.code)
      expect([path, refused]).toEqual([path, code])
    }
    expect([agent.openFiles, hidden()]).toEqual([0, []])
    await expect(write('/proc/nothing/here', Buffer.from('x'))).rejects.toMatchObject({ refusal: true })
    await expect(write('/dev/null', Buffer.from('x'))).rejects.toMatchObject({ code: 'not_regular' })
  })
})

test('a guest that prints an endless path is not asked to write there', async () => {
  const printed = Buffer.from(`/y\0/${'x'.repeat(20_000)}\x001\0`).toString('base64')
  const asked: unknown[] = []
  const transport = new GuestAgentTransport(async (execute, args) => {
    asked.push(args)
    return execute === 'guest-exec' ? { pid: 1 } : { exited: true, exitcode: 0, 'out-data': printed }
  })
  await expect(transport.createFile('/x', null)).rejects.toMatchObject({ code: 'guest_unavailable' })
  expect(JSON.stringify(asked)).not.toContain('xxxxxx')
})
