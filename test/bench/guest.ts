// Commands and files in a guest, through the API and by the bare transports on its twin, in turn; and what many transfers
// at once cost the two programs between.
import { randomBytes } from 'node:crypto'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Desktop } from '@dormouse/client'
import type { Instance } from '../real/parts/instance.ts'
import type { RawGuest } from './raw-guest.ts'

const mib = 1024 * 1024
const fileMiB = 8
const commandsEach = 25
const many = 50

interface On {
  instance: Instance
  desktop: Desktop
  twin: RawGuest
  rounds: number
}

export async function guestFigures(on: On) {
  const { desktop, twin, rounds } = on
  const { client } = on.instance
  const bytes = randomBytes(fileMiB * mib)
  const here = join(on.instance.dataDir, 'bench-file')
  writeFileSync(here, bytes)
  const [raw, agent] = [await twin.ssh(), twin.agent()]
  const execMs: Record<string, number[]> = { API: [], 'API, in a row': [], 'bare SSH': [], 'bare guest agent': [] }
  const rates: Record<string, number[]> = {}
  const timed = async (work: () => Promise<unknown>) => {
    const began = performance.now()
    await work()
    return performance.now() - began
  }
  const moved = async (name: string, work: () => Promise<unknown>) => {
    const ms = await timed(work)
    rates[name] = [...(rates[name] ?? []), fileMiB / (ms / 1_000)]
  }
  const execTrue = () => client.exec(desktop.id, { command: ['true'] })
  await client.exec(desktop.id, { command: 'mkdir -p /run/bench' })
  await raw.exec('mkdir -p /run/bench')
  for (let round = 0; round < rounds; round++) {
    for (let i = 0; i < commandsEach; i++) {
      execMs.API!.push(await timed(execTrue))
      // The program, as through the API: the shell's own would need no process.
      execMs['bare SSH']!.push(await timed(() => raw.exec('exec true')))
      if (i % 5 === 0) execMs['bare guest agent']!.push(await timed(() => agent.exec('/bin/true')))
    }
    // No time between, to begin the shell of the next.
    for (let i = 0; i < commandsEach; i++) execMs['API, in a row']!.push(await timed(execTrue))
    await moved('write, API', () => client.writeFile(desktop.id, '/run/bench/file', bytes))
    await moved('write, bare sftp', () => raw.put(here, '/run/bench/file'))
    await moved('read, API', () => client.readFile(desktop.id, '/run/bench/file'))
    await moved('read, bare sftp', () => raw.get('/run/bench/file', `${here}.back`))
  }
  await moved('write, bare guest agent', () => agent.write('/run/bench/file', bytes))
  await moved('read, bare guest agent', () => agent.read('/run/bench/file'))
  raw.close()
  const memoryMiB = await memoryOfMany(on, bytes)
  for (const file of [here, `${here}.back`]) rmSync(file, { force: true })
  return { execMs: each(execMs, spread), MiBperSecond: each(rates, middle), memoryMiB }
}

/** How far the resident memory of each program rises, per transfer, while so many are under way; MiB. */
async function memoryOfMany({ instance, desktop }: On, bytes: Uint8Array<ArrayBuffer>) {
  const programs = ['control plane', 'agent'].map((name) => ({ name, pid: instance.process(name)!.pid }))
  const before = programs.map(({ pid }) => residentMiB(pid, 'VmRSS'))
  for (const { pid } of programs) writeFileSync(`/proc/${pid}/clear_refs`, '5')
  const paths = Array.from({ length: many }, (_, i) => `/run/bench/${i % 4}`)
  await Promise.all(paths.map((path) => instance.client.writeFile(desktop.id, path, bytes)))
  await Promise.all(paths.map((path) => instance.client.readFile(desktop.id, path)))
  const rises = programs.map(({ name, pid }, i) => {
    const peakMiB = residentMiB(pid, 'VmHWM')
    return [name, { beforeMiB: before[i]!, peakMiB, perTransferMiB: rounded((peakMiB - before[i]!) / many) }] as const
  })
  return Object.fromEntries(rises)
}

function residentMiB(pid: number, field: string): number {
  const kib = new RegExp(`${field}:\\s+(\\d+)`).exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
  return rounded(Number(kib) / 1024)
}

const each = <T, R>(all: Record<string, T>, of: (value: T) => R): Record<string, R> =>
  Object.fromEntries(Object.entries(all).map(([name, value]) => [name, of(value)]))

function spread(all: number[]) {
  const sorted = all.toSorted((a, b) => a - b)
  const at = (part: number) => rounded(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))]!)
  return { p50: at(0.5), p99: at(0.99) }
}

const middle = (all: number[]) => spread(all).p50

const rounded = (value: number) => Math.round(value * 10) / 10
