// A guest without its memory: the state of its devices, as QEMU writes and reads it if the memory is in a file that it shares.
// libvirt has no call for that, so QEMU gets the command over its monitor. QEMU runs no program for it: libvirt's sandbox would
// kill QEMU.
import { createReadStream, createWriteStream } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { Refusal, refuse } from '@dormouse/contract'
import type { Domain } from '@dormouse/node-libvirt'
import { before } from '../../mechanics/deadlines.ts'
import { openSocket } from '../../mechanics/open-socket.ts'
import { listenForQemu } from './move-sockets.ts'

type Monitored = Pick<Domain, 'monitor'>

/** The largest device is the video card, with 16 MiB. */
const maxBytes = 256 * 1024 * 1024
const lookEveryMs = 5
const usualMs = 60_000
const dialMs = 5_000

const leaveMemoryOut = (domain: Monitored, state: boolean) =>
  domain.monitor('migrate-set-capabilities', { capabilities: [{ capability: 'x-ignore-shared', state }] })

/** Saves the devices of a suspended guest. It must not run again: memory and devices belong together only now. */
export async function saveDevices(
  domain: Monitored,
  socketPath: string,
  path: string,
  timeoutMs = usualMs,
): Promise<void> {
  await leaveMemoryOut(domain, true)
  using arrival = await listen(socketPath, path)
  await domain.monitor('migrate', { uri: `unix:${socketPath}` })
  const deadline = performance.now() + timeoutMs
  await inTime(Promise.all([arrival.written, completed(domain, deadline)]), deadline)
}

/** Into a paused QEMU that waits for it. It must not leave memory out of any later save: that could not be restored. */
export async function loadDevices(
  domain: Monitored,
  socketPath: string,
  path: string,
  timeoutMs = usualMs,
): Promise<void> {
  await leaveMemoryOut(domain, true)
  await domain.monitor('migrate-incoming', { uri: `unix:${socketPath}` })
  const to = { path: socketPath, allowHalfOpen: true }
  const socket = await openSocket(to, dialMs, () => new Refusal('hypervisor_failed', 'QEMU does not take the guest'))
  const deadline = performance.now() + timeoutMs
  const send = async () => {
    await pipeline(createReadStream(path), socket)
    await completed(domain, deadline)
  }
  try {
    await inTime(send(), deadline)
  } finally {
    socket.destroy()
  }
  await leaveMemoryOut(domain, false)
}

/** A QEMU that hangs neither ends what it writes nor reads what it gets. */
async function inTime(work: Promise<unknown>, deadline: number): Promise<void> {
  const ended = work.then(() => true)
  if (!(await before(deadline, ended))) refuseLate()
}

async function completed(domain: Monitored, deadline: number): Promise<void> {
  for (;;) {
    const { status, 'error-desc': why } = (await domain.monitor('query-migrate')) as Record<string, unknown>
    if (status === 'completed') return
    if (status === 'failed' || status === 'cancelled')
      refuse('hypervisor_failed', `QEMU could not copy the guest’s devices${why ? `: ${why}` : ''}`)
    if (performance.now() >= deadline) refuseLate()
    await sleep(lookEveryMs)
  }
}

const refuseLate = (): never => refuse('hypervisor_failed', 'QEMU did not copy the guest’s devices in time')

interface Arrival extends Disposable {
  /** Resolves when one connection has come to its end and all of it is in the file. */
  written: Promise<void>
}

async function listen(socketPath: string, path: string): Promise<Arrival> {
  const written = Promise.withResolvers<void>()
  // If the save fails, nobody waits for it.
  written.promise.catch(() => undefined)
  let peer: Socket | undefined
  const server = createServer((socket) => {
    peer = socket
    server.close()
    pipeline(socket, limit(), createWriteStream(path, { flags: 'wx', mode: 0o600 })).then(
      written.resolve,
      written.reject,
    )
  })
  await listenForQemu(server, socketPath)
  return {
    written: written.promise,
    [Symbol.dispose]: () => {
      server.close()
      peer?.destroy()
    },
  }
}

function limit(): Transform {
  let bytes = 0
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length
      if (bytes <= maxBytes) done(null, chunk)
      else
        done(new Error(`the state of the guest’s devices has more than ${maxBytes} bytes; QEMU sends its memory, too`))
    },
  })
}
