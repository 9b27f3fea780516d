// The QEMU processes of this host, as the kernel reports them: for what libvirt cannot report while one is stopped. Reads
// only /proc; a process that is not visible there counts as unknown.
import { readdirSync, readFileSync } from 'node:fs'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import { constants, setPriority } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import type { GuestActivity } from '../guest-access.ts'

interface Process {
  pid: number
  /** In the kernel's ticks; distinguishes it from a later process with the same pid. */
  began: string
}

/** In milliseconds. */
export interface ProcessorMs {
  ran: number
  waited: number
}

const searchEveryMs = 1_000
const lookEveryMs = 50
/** The share of one processor's time; an idle guest uses a few hundredths. */
const busyShare = 0.3

/** An `oom_score_adj` of a process that is among the first that the kernel ends. */
export const firstForOom = 900

export class QemuProcesses {
  readonly #found = new Map<string, Process>()
  #search: Promise<void> | undefined
  #searchedAt = -searchEveryMs

  /** The activity of the domain with this name, read at each call. */
  activity(domainName: string): GuestActivity {
    const wants = (overMs: number) => this.#wants(domainName, overMs)
    return {
      frozen: () => this.#frozen(domainName),
      busy: async (overMs) => (await wants(overMs)) === true,
      idle: async (overMs) => (await wants(overMs)) === false,
    }
  }

  /** How long its virtual processors have run, and waited for a processor; undefined if it is not visible. */
  async processorMs(domainName: string): Promise<ProcessorMs | undefined> {
    if (this.#stateOf(domainName) === undefined) await this.#searchSoon()
    const found = this.#found.get(domainName)
    return found && processorsOf(found.pid)
  }

  /**
   * How much of the host's memory it holds, and gives back when it ends: without the files that it maps, such as QEMU itself, or
   * a template's memory. Undefined if it is not visible.
   */
  async residentMiB(domainName: string): Promise<number | undefined> {
    const pid = await this.#pidOf(domainName)
    const status = pid && (await readFile(`/proc/${pid}/status`, 'utf8').catch(() => ''))
    const [, kib] = /^RssAnon:\s+(\d+) kB$/m.exec(status || '') ?? []
    return kib ? Math.ceil(Number(kib) / 1024) : undefined
  }

  /** Sets `oom_score_adj`. If the agent is not allowed to, the kernel decides as for any other process. */
  async setOomScore(domainName: string, score: number): Promise<void> {
    const pid = await this.#pidOf(domainName)
    if (pid) await writeFile(`/proc/${pid}/oom_score_adj`, `${score}`).catch(() => undefined)
  }

  /** It gets what processors others leave. If the agent is not allowed to, it shares them. */
  async yieldProcessors(domainName: string): Promise<void> {
    const pid = await this.#pidOf(domainName)
    const threads = pid ? await readdir(`/proc/${pid}/task`).catch((): string[] => []) : []
    for (const thread of threads) {
      try {
        setPriority(Number(thread), constants.priority.PRIORITY_LOW)
      } catch {
        // The thread has ended, or the agent is not allowed to.
      }
    }
  }

  async #pidOf(domainName: string): Promise<number | undefined> {
    if (this.#stateOf(domainName) === undefined) await this.#searchAll()
    return this.#found.get(domainName)?.pid
  }

  #frozen(domainName: string): boolean {
    const state = this.#stateOf(domainName)
    if (state === undefined) void this.#searchSoon()
    return state === 'T' || state === 't'
  }

  /** Whether it runs, or waits for a processor or the disk; undefined if it is not visible. */
  async #wants(domainName: string, overMs: number): Promise<boolean | undefined> {
    if (this.#stateOf(domainName) === undefined) await this.#searchSoon()
    const found = this.#found.get(domainName)
    if (!found) return sleep(overMs, undefined)
    const [before, startedAt] = [await wantedMs(found.pid), performance.now()]
    const waited = await waitedForDisk(found.pid, overMs)
    const after = await wantedMs(found.pid)
    if (before === undefined || after === undefined) return undefined
    return waited || (after - before) / (performance.now() - startedAt) > busyShare
  }

  /** Undefined if it was not found yet, or has ended: after a wake a desktop has another process. */
  #stateOf(domainName: string): string | undefined {
    const found = this.#found.get(domainName)
    const stat = found && statOf(found.pid)
    if (stat && stat.began === found.began) return stat.state
    this.#found.delete(domainName)
    return undefined
  }

  /** Searches for all processes at once, at most once per second. */
  #searchSoon(): Promise<void> {
    if (performance.now() - this.#searchedAt < searchEveryMs) return this.#search ?? Promise.resolve()
    this.#searchedAt = performance.now()
    this.#search = this.#searchAll().finally(() => {
      this.#search = undefined
    })
    return this.#search
  }

  async #searchAll(): Promise<void> {
    const names = await readdir('/proc').catch((): string[] => [])
    for (const pid of names.filter((name) => /^\d+$/.test(name)).map(Number)) {
      const words = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
      const name = /\0-name\0guest=([^,\0]+)/.exec(words)?.[1]
      const stat = name && statOf(pid)
      if (stat) this.#found.set(name, { pid, began: stat.began })
    }
  }
}

async function wantedMs(pid: number): Promise<number | undefined> {
  const all = await processorsOf(pid)
  return all && all.ran + all.waited
}

/** How long its vCPUs have run, and waited for a processor, since they started; undefined if the kernel does not say. */
async function processorsOf(pid: number): Promise<ProcessorMs | undefined> {
  try {
    const threads = await readdir(`/proc/${pid}/task`)
    const each = await Promise.all(threads.map((thread) => processorOf(`/proc/${pid}/task/${thread}`)))
    return each.reduce((sum, one) => ({ ran: sum.ran + one.ran, waited: sum.waited + one.waited }), unused)
  } catch {
    return undefined
  }
}

const unused: ProcessorMs = { ran: 0, waited: 0 }

/** QEMU names the threads of vCPUs; threads that save or migrate have other names. */
async function processorOf(thread: string): Promise<ProcessorMs> {
  if (!(await readFile(`${thread}/comm`, 'utf8')).startsWith('CPU ')) return unused
  const [ranNs = 0, waitedNs = 0] = (await readFile(`${thread}/schedstat`, 'utf8')).split(' ').map(Number)
  return { ran: ranNs / 1e6, waited: waitedNs / 1e6 }
}

/** Takes `overMs`, and looks repeatedly, because each wait may be short. */
async function waitedForDisk(pid: number, overMs: number): Promise<boolean> {
  const ends = performance.now() + overMs
  let waited = false
  for (let leftMs = overMs; leftMs > 0; leftMs = ends - performance.now()) {
    waited ||= waitsForDisk(pid)
    await sleep(Math.min(lookEveryMs, leftMs))
  }
  return waited || waitsForDisk(pid)
}

/** A guest's disk I/O is done by threads of its process, which wait for the host's disk. */
function waitsForDisk(pid: number): boolean {
  try {
    return readdirSync(`/proc/${pid}/task`).some((thread) => statOf(`${pid}/task/${thread}`)?.state === 'D')
  } catch {
    return false
  }
}

function statOf(pid: number | string): { state: string; began: string } | undefined {
  try {
    // The name, in brackets, may contain anything.
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)!.split(' ')
    return { state: fields[0]!, began: fields[19]! }
  } catch {
    return undefined
  }
}
