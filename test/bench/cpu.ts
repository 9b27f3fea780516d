// CPU time and memory of processes, read from /proc.
import { readFileSync } from 'node:fs'
import { processesIn, readLive } from '../../scripts/ground/processes.ts'

/** Ticks per second of the times in /proc; it is 100 on every Linux that Node runs on. */
const ticksPerSecond = 100

/** CPU time that the process has used, in ms: all threads, ended ones too; with `children`, those that it has reaped. */
export function cpuMs(pid: number, { children = false } = {}): number {
  const stat = readLive(() => readFileSync(`/proc/${pid}/stat`, 'utf8'))
  if (stat === undefined) return 0
  const fields = stat.replace(/^.*\) /s, '').split(' ')
  const ticks = [11, 12, ...(children ? [13, 14] : [])].map((at) => Number(fields[at]))
  return (ticks.reduce((sum, one) => sum + one, 0) * 1_000) / ticksPerSecond
}

/** CPU time of all processes of a Postgres, in ms, ended ones too. */
export function postgresCpuMs(dataDir: string): number {
  return processesIn(dataDir).reduce((sum, { pid }) => sum + cpuMs(pid, { children: true }), 0)
}

/** Resident memory of a process, in MiB; `VmHWM` is its peak. */
export function residentMiB(pid: number, field: 'VmRSS' | 'VmHWM' = 'VmRSS'): number {
  const kib = new RegExp(`${field}:\\s+(\\d+)`).exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]
  return Math.round(Number(kib) / 102.4) / 10
}
