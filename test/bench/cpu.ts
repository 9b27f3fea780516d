// CPU time and memory of processes, read from /proc.
import { readdirSync, readFileSync } from 'node:fs'
import { processesIn, readLive } from '../../scripts/testbed/processes.ts'

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

/** What a process holds of the host's memory, in MiB: of pages that it shares with others, its share. */
export function ownMiB(pid: number): number {
  const kib = /^Pss:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))?.[1]
  return Math.round(Number(kib) / 102.4) / 10
}

/** What new processes can have without swapping. */
export function availableMiB(): number {
  const kib = /^MemAvailable:\s+(\d+)/m.exec(readFileSync('/proc/meminfo', 'utf8'))?.[1]
  return Math.round(Number(kib) / 1_024)
}

/** The QEMU of the domain whose name ends so. */
export function qemuOf(name: string): number {
  const isIts = (pid: string) =>
    readLive(() => readFileSync(`/proc/${pid}/cmdline`, 'utf8'))?.includes(`${name},debug-threads`)
  const pid = readdirSync('/proc').find((entry) => /^\d+$/.test(entry) && isIts(entry))
  if (!pid) throw new Error(`no QEMU runs ${name}`)
  return Number(pid)
}
