// Commands that last and terminals in a real guest, through the API and over bare SSH to its twin, in turn.
import { once } from 'node:events'
import type { RawSsh } from '@dormouse/agent/testing/raw-ssh.ts'
import type { Desktop } from '@dormouse/client'
import { median, percentile } from '../statistics.ts'
import { alternate, type Measured, rowOf, type Subject } from '../subject.ts'

const mib = 1024 * 1024
const keysEach = 40
const startsEach = 10
const outputMiB = 16
const outputCommand = `yes 0123456789abcde | head -c ${outputMiB * mib}`
/** It sends back each byte as it comes. */
const echo = 'stty raw -echo; printf ready; exec cat'

export const terminals: Subject = {
  name: 'terminals',
  what: 'a key in a terminal until its echo, the start of a command until its first byte, and 16 MiB of its output, beside SSH to its twin',
  hosts: 'real',
  seconds: { fixed: 40, perRound: 30 },
  run: async ({ real, rounds }) => {
    const { desktop, twin } = await real.get()
    const raw = await twin.ssh()
    const taken = await alternate(rounds, {
      floor: () => roundOf(overSsh(raw)),
      ours: () => roundOf(overApi(desktop)),
    })
    raw.close()
    const of = { subject: 'terminals', better: 'less', floor: 'SSH', ratioKind: 'multiple' } as const
    return [
      rowOf(taken, { ...of, name: 'a key until its echo', unit: 'ms, p50', of: 'key' }),
      rowOf(taken, { ...of, name: 'a key until its echo, p99', unit: 'ms, p99', of: 'keyP99' }),
      rowOf(taken, { ...of, name: 'start until the first byte', unit: 'ms, p50', of: 'start' }),
      rowOf(taken, {
        ...{ ...of, name: 'output of 16 MiB', unit: 'MiB per second', of: 'rate' },
        ...({ better: 'more', ratioKind: 'share' } as const),
      }),
    ]
  },
}

interface InGuest {
  /** A terminal that echoes; `next` is called before `write`. */
  terminal(): Promise<{ write(key: string): void; next(): Promise<unknown>; close(): Promise<unknown> }>
  /** Resolves with the first byte of output. */
  start(): Promise<unknown>
  /** Resolves when all output was read; the number of bytes. */
  output(): Promise<number>
}

async function roundOf({ terminal, start, output }: InGuest): Promise<Measured> {
  const { write, next, close } = await terminal()
  await next()
  const keys: number[] = []
  for (let at = 0; at < keysEach; at++)
    keys.push(
      await timed(() => {
        const echoed = next()
        write('x')
        return echoed
      }),
    )
  await close()
  const starts: number[] = []
  for (let at = 0; at < startsEach; at++) starts.push(await timed(start))
  const outputMs = await timed(async () => {
    const bytes = await output()
    if (bytes !== outputMiB * mib) throw new Error(`${bytes} bytes of output came`)
  })
  return {
    ...{ key: median(keys), keyP99: percentile(keys, 0.99), start: median(starts) },
    rate: outputMiB / (outputMs / 1_000),
  }
}

const overApi = ({ commands }: Desktop): InGuest => ({
  terminal: async () => {
    const exec = await commands.start(['sh', '-c', echo], { tty: { cols: 80, rows: 24 } })
    const joined = exec.attach()
    return {
      write: (key) => void joined.write(key),
      next: () => joined.output.next(),
      close: async () => {
        joined.close()
        await exec.kill()
      },
    }
  },
  start: async () => {
    const exec = await commands.start('echo first; sleep 1')
    for await (const _ of exec.output()) return
  },
  output: async () => {
    const exec = await commands.start(outputCommand)
    let bytes = 0
    for await (const piece of exec.output()) bytes = piece.nextOffset
    return bytes
  },
})

const overSsh = (ssh: RawSsh): InGuest => ({
  terminal: async () => {
    const channel = await ssh.start(echo, true)
    return {
      write: (key) => void channel.write(key),
      next: () => once(channel, 'data'),
      close: async () => channel.close(),
    }
  },
  start: async () => {
    const channel = await ssh.start('echo first; sleep 1', false)
    await once(channel, 'data')
    channel.close()
  },
  output: async () => {
    const channel = await ssh.start(outputCommand, false)
    let bytes = 0
    channel.on('data', (piece: Buffer) => {
      bytes += piece.length
    })
    await once(channel, 'close')
    return bytes
  },
})

async function timed(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now()
  await work()
  return performance.now() - began
}
