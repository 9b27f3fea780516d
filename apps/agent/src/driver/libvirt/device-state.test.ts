// Guarantee: a QEMU that neither writes nor reads its devices to their end holds nothing up for longer than a timeout.
import { once } from 'node:events'
import { mkdtempDisposableSync, readFileSync, writeFileSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { loadDevices, saveDevices } from './device-state.ts'

const late = { code: 'hypervisor_failed', message: expect.stringContaining('did not copy the guest’s devices in time') }
const soonMs = 50

/** A QEMU that calls itself ready at once, whatever it does with its devices. */
const qemuThat = (acts: { migrate?: () => void } = {}) => ({
  monitor: async (execute: string) => {
    if (execute === 'migrate') acts.migrate?.()
    return { status: 'completed' }
  },
})

function folder() {
  const made = mkdtempDisposableSync(join(tmpdir(), 'dormouse-devices-'))
  return { at: (name: string) => join(made.path, name), [Symbol.dispose]: () => made.remove() }
}

test('devices are in the file when they were written to their end', async () => {
  using files = folder()
  const migrate = () => void connect(files.at('socket')).end('devices')
  await saveDevices(qemuThat({ migrate }), files.at('socket'), files.at('devices'))
  expect(readFileSync(files.at('devices'), 'utf8')).toBe('devices')
})

test('a QEMU that writes them and does not end its connection is given up', async () => {
  using files = folder()
  let socket: Socket | undefined
  const migrate = () => {
    socket = connect(files.at('socket'))
    socket.write('devices')
  }
  const saving = saveDevices(qemuThat({ migrate }), files.at('socket'), files.at('devices'), soonMs)
  await expect(saving).rejects.toMatchObject(late)
  // Its connection is closed: otherwise this would not come.
  await once(socket!, 'close')
})

test('a QEMU that does not take its devices is given up', async () => {
  using files = folder()
  writeFileSync(files.at('devices'), Buffer.alloc(8 * 1024 * 1024))
  const accepted = Promise.withResolvers<Socket>()
  const server = createServer((socket) => accepted.resolve(socket.pause()))
  await new Promise<void>((listening) => server.listen(files.at('socket'), listening))
  await expect(loadDevices(qemuThat(), files.at('socket'), files.at('devices'), soonMs)).rejects.toMatchObject(late)
  const socket = await accepted.promise
  server.close()
  await once(socket.resume(), 'close')
})
