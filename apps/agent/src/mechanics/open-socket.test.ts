// Guarantee: a socket of QEMU's is opened itself. What its user puts in its place leads nowhere.
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempDisposableSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Refusal } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { openSocket } from './open-socket.ts'

const open = (path: string) => openSocket({ path }, 10_000, () => new Refusal('guest_unavailable', 'not opened'))

test('a socket is opened, and no link to it, folder, file or pipe', async () => {
  using folder = mkdtempDisposableSync(join(tmpdir(), 'dormouse-socket-'))
  const at = (name: string) => join(folder.path, name)
  let connections = 0
  const server = createServer((socket) => {
    connections++
    socket.end()
  })
  await new Promise<void>((listening) => server.listen(at('socket'), listening))
  symlinkSync(at('socket'), at('link'))
  symlinkSync(at('missing'), at('dangling'))
  writeFileSync(at('file'), '')
  mkdirSync(at('folder'))
  execFileSync('mkfifo', [at('pipe')])
  for (const name of ['link', 'dangling', 'file', 'folder', 'pipe'])
    await expect(open(at(name))).rejects.toMatchObject({
      code: 'guest_unavailable',
      cause: expect.objectContaining({ message: expect.stringContaining('not a socket') }),
    })
  await expect(open(at('missing'))).rejects.toMatchObject({ code: 'guest_unavailable', cause: { code: 'ENOENT' } })
  expect(connections).toBe(0)
  const socket = await open(at('socket'))
  socket.destroy()
  await expect.poll(() => connections).toBe(1)
  server.close()
})
