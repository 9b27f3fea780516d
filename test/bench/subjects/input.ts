// What input costs on a real desktop: from a key to the settled picture of what it did, actions of a batch, and typed characters
// that all arrive. There is no floor: no other way does the same.
import type { Desktop, InputAction } from '@dormouse/client'
import { guest } from '../../real/parts/witness.ts'
import { percentile } from '../statistics.ts'
import { alternate, type Measured, rowOf, type Subject } from '../subject.ts'

const keysEach = 20
const quietMs = 100
const actionsEach = 100
const fastestMs = 2
/** Between two events; the first that loses nothing counts. */
const paces = [2, 3, 5, 10, 20, 40, 80]
const text = Array.from({ length: 10 }, (_, i) => `if (a_${i} < B[${i}]) { X("$y~${i}"); }\n`).join('')

export const input: Subject = {
  name: 'input',
  what: 'from a key to the settled picture, actions per second, and typed characters per second without a loss',
  hosts: 'real',
  seconds: { fixed: 5, perRound: 40 },
  run: async ({ real, rounds }) => {
    const { desktop } = await real.get()
    const taken = await alternate(rounds, { ours: () => roundOf(desktop) })
    const row = { subject: 'input' } as const
    const key = `a key, ${quietMs} ms of quiet, a JPEG`
    return [
      rowOf(taken, { ...row, name: key, unit: 'ms, p50', better: 'less', of: 'p50' }),
      rowOf(taken, { ...row, name: key, unit: 'ms, p99', better: 'less', of: 'p99' }),
      rowOf(taken, { ...row, name: 'that are settled', unit: 'of 100', better: 'more', of: 'settled' }),
      rowOf(taken, {
        ...row,
        name: `actions of a batch, ${fastestMs} ms apart`,
        unit: 'per second',
        better: 'more',
        of: 'actions',
      }),
      rowOf(taken, {
        ...row,
        name: 'typed without a loss',
        unit: 'characters per second',
        better: 'more',
        of: 'typed',
      }),
    ]
  },
}

async function roundOf(desktop: Desktop): Promise<Measured> {
  return { ...(await settledOf(desktop)), actions: await actionsOf(desktop), typed: await typedOf(desktop) }
}

/** The console echoes the key. */
async function settledOf(desktop: Desktop): Promise<Measured> {
  const tookMs: number[] = []
  let settled = 0
  for (let i = 0; i < keysEach; i++) {
    const began = performance.now()
    const done = await desktop.input([{ type: 'key', keys: ['x'] }], {
      ...{ settle: { quietMs }, screenshot: { fit: 640, format: 'jpeg' } },
    })
    tookMs.push(performance.now() - began)
    if (done.settled && done.changed) settled++
  }
  await desktop.input([{ type: 'key', keys: ['Enter'] }], { settle: true })
  return { p50: percentile(tookMs, 0.5), p99: percentile(tookMs, 0.99), settled: (settled / keysEach) * 100 }
}

/** Each is one event. */
async function actionsOf(desktop: Desktop): Promise<number> {
  const moves: InputAction[] = Array.from({ length: actionsEach }, (_, i) => ({
    type: 'move',
    x: 100 + (i % 2),
    y: 100,
  }))
  const began = performance.now()
  await desktop.input(moves, { paceMs: fastestMs })
  return (actionsEach / (performance.now() - began)) * 1_000
}

async function typedOf(desktop: Desktop): Promise<number> {
  for (const paceMs of paces) {
    await guest(desktop, 'rm -f /run/bench-typed')
    await desktop.input([{ type: 'type', text: '\ncat > /run/bench-typed\n' }], { paceMs: 40, settle: true })
    const began = performance.now()
    await desktop.input([{ type: 'type', text }], { paceMs })
    const tookMs = performance.now() - began
    await desktop.input([{ type: 'key', keys: ['Control', 'd'] }], { paceMs: 40, settle: true })
    const arrived = await guest(desktop, 'cat /run/bench-typed || true')
    if (arrived.trimEnd() === text.trimEnd()) return (text.length / tookMs) * 1_000
  }
  return 0
}
