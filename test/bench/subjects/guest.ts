// Commands and files in a real guest, through the API and by the bare transports on its twin, in turn; and the memory that
// many transfers at once cost the control plane and the agent.
import { randomBytes } from 'node:crypto'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { residentMiB } from '../cpu.ts'
import type { Real } from '../real.ts'
import { median, percentile, spreadOf } from '../statistics.ts'
import { alternate, type Measured, type Row, rowOf, type Subject } from '../subject.ts'

const mib = 1024 * 1024
const fileMiB = 8
const commandsEach = 25
const many = 50

export const guest: Subject = {
  name: 'guest',
  what: 'exec of `true` and files of 8 MiB in a real guest, beside bare SSH to its twin',
  hosts: 'real',
  seconds: { fixed: 40, perRound: 8 },
  run: async ({ real, rounds, say }) => {
    const stage = await real.get()
    const bytes = randomBytes(fileMiB * mib)
    const here = join(stage.instance.dataDir, 'bench-file')
    writeFileSync(here, bytes)
    const raw = await stage.twin.ssh()
    const taken = await alternate(rounds, {
      floor: () =>
        roundOf({
          exec: () => raw.exec('exec true'),
          write: () => raw.put(here, '/run/bench-file'),
          read: () => raw.get('/run/bench-file', `${here}.back`),
        }),
      ours: () => roundOf(overApi(stage, bytes)),
    })
    raw.close()
    const memory = await memoryOfMany(stage, bytes, say)
    for (const file of [here, `${here}.back`]) rmSync(file, { force: true })
    const of = { subject: 'guest', better: 'more', unit: 'MiB per second', floor: 'SSH', ratioKind: 'share' } as const
    return [
      rowOf(taken, {
        ...of,
        name: 'exec of true',
        unit: 'ms, p50',
        better: 'less',
        floor: 'SSH',
        of: 'exec',
        ratioKind: 'multiple',
      }),
      rowOf(taken, { ...of, name: 'write of 8 MiB', of: 'write', goal: { ratio: 0.8 } }),
      rowOf(taken, { ...of, name: 'read of 8 MiB', of: 'read', goal: { ratio: 0.8 } }),
      ...memory,
    ]
  },
}

interface InGuest {
  exec(): Promise<unknown>
  write(): Promise<unknown>
  read(): Promise<unknown>
}

const overApi = ({ instance: { client }, desktop }: Real, bytes: Uint8Array<ArrayBuffer>): InGuest => ({
  // The program, not the shell's own, which needs no process.
  exec: () => client.exec(desktop.id, { command: ['true'] }),
  write: () => client.writeFile(desktop.id, '/run/bench-file', bytes),
  read: () => client.readFile(desktop.id, '/run/bench-file'),
})

/** The median of the commands in ms, and the rates of both ways in MiB per second. */
async function roundOf({ exec, write, read }: InGuest): Promise<Measured> {
  const times: number[] = []
  for (let at = 0; at < commandsEach; at++) times.push(await timed(exec))
  const rate = async (work: () => Promise<unknown>) => fileMiB / ((await timed(work)) / 1_000)
  return { exec: median(times), p99: percentile(times, 0.99), write: await rate(write), read: await rate(read) }
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const began = performance.now()
  await work()
  return performance.now() - began
}

/** How far the resident memory of each program rises, per transfer, while this many are in progress; MiB. */
async function memoryOfMany({ instance, desktop }: Real, bytes: Uint8Array<ArrayBuffer>, say: (line: string) => void) {
  const programs = ['control plane', 'agent'].map((name) => ({ name, pid: instance.process(name)!.pid }))
  const before = programs.map(({ pid }) => residentMiB(pid))
  for (const { pid } of programs) writeFileSync(`/proc/${pid}/clear_refs`, '5')
  const paths = Array.from({ length: many }, (_, i) => `/run/bench-${i % 4}`)
  const written = await Promise.allSettled(paths.map((path) => instance.client.writeFile(desktop.id, path, bytes)))
  const read = await Promise.allSettled(paths.map((path) => instance.client.readFile(desktop.id, path)))
  // An emulated guest on a busy machine may not answer in time.
  const failed = [...written, ...read].filter(({ status }) => status === 'rejected').length
  if (failed > 0) say(`guest: ${failed} of ${2 * many} transfers failed`)
  return programs.map(
    ({ name, pid }, at): Row => ({
      subject: 'guest',
      name: `memory of the ${name}, per transfer, ${many} at once`,
      unit: 'MiB',
      better: 'less',
      figures: { ours: spreadOf([(residentMiB(pid, 'VmHWM') - before[at]!) / many]) },
      goal: { figure: 4 },
    }),
  )
}
