// The QEMU processes of this host, as its kernel tells of them: for what libvirt cannot say while one stands still. Reads
// /proc and nothing else; where a process cannot be seen there, nothing is said of it.
import { readdirSync, readFileSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { GuestActivity } from '../guest-activity.ts'

interface Process {
  pid: number
  /** In the kernel's ticks; tells it from a later one of the same number. */
  began: string
}

const searchEveryMs = 1_000
const lookEveryMs = 50
/** Of the time of one of the host's processors: a guest that idles takes a few hundredths. */
const busyShare = 0.3

export class QemuProcesses {
  readonly #found = new Map<string, Process>()
  #search: Promise<void> | undefined
  #searchedAt = -searchEveryMs

  /** Of the domain with this name, whenever it is asked. */
  pulse(domainName: string): GuestActivity {
    const wants = (overMs: number) => this.#wants(domainName, overMs)
    return {
      frozen: () => this.#frozen(domainName),
      busy: async (overMs) => (await wants(overMs)) === true,
      idle: async (overMs) => (await wants(overMs)) === false,
    }
  }

  #frozen(domainName: string): boolean {
    const state = this.#stateOf(domainName)
    if (state === undefined) void this.#look()
    return state === 'T' || state === 't'
  }

  /** Whether it runs, or waits for a processor or the disk; undefined where it is not seen. */
  async #wants(domainName: string, overMs: number): Promise<boolean | undefined> {
    if (this.#stateOf(domainName) === undefined) await this.#look()
    const found = this.#found.get(domainName)
    if (!found) return sleep(overMs, undefined)
    const [before, startedAt] = [await wantedMs(found.pid), performance.now()]
    const waited = await waitedForDisk(found.pid, overMs)
    const after = await wantedMs(found.pid)
    if (before === undefined || after === undefined) return undefined
    return waited || (after - before) / (performance.now() - startedAt) > busyShare
  }

  /** Undefined where it was not found yet, or has ended: a desktop that sleeps and wakes has another process. */
  #stateOf(domainName: string): string | undefined {
    const found = this.#found.get(domainName)
    const stat = found && statOf(found.pid)
    if (stat && stat.began === found.began) return stat.state
    this.#found.delete(domainName)
    return undefined
  }

  /** Looks for all of them at once, and not too often. */
  #look(): Promise<void> {
    if (performance.now() - this.#searchedAt < searchEveryMs) return this.#search ?? Promise.resolve()
    this.#searchedAt = performance.now()
    this.#search = this.#lookAround().finally(() => {
      this.#search = undefined
    })
    return this.#search
  }

  async #lookAround(): Promise<void> {
    const names = await readdir('/proc').catch((): string[] => [])
    for (const pid of names.filter((name) => /^\d+$/.test(name)).map(Number)) {
      const words = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')
      const name = /\0-name\0guest=([^,\0]+)/.exec(words)?.[1]
      const stat = name && statOf(pid)
      if (stat) this.#found.set(name, { pid, began: stat.began })
    }
  }
}

/** What its virtual processors ran, and waited for one of the host's, since they began; undefined where that is not told. */
async function wantedMs(pid: number): Promise<number | undefined> {
  try {
    const threads = await readdir(`/proc/${pid}/task`)
    const wanted = await Promise.all(threads.map((thread) => processorMs(`/proc/${pid}/task/${thread}`)))
    return wanted.reduce((sum, ms) => sum + ms, 0)
  } catch {
    return undefined
  }
}

/** QEMU names the threads that run a guest; what saves or migrates it has others. */
async function processorMs(thread: string): Promise<number> {
  if (!(await readFile(`${thread}/comm`, 'utf8')).startsWith('CPU ')) return 0
  const [ranNs = 0, waitedNs = 0] = (await readFile(`${thread}/schedstat`, 'utf8')).split(' ').map(Number)
  return (ranNs + waitedNs) / 1e6
}

/** Takes so long, and looks all the while: each wait may be short. */
async function waitedForDisk(pid: number, overMs: number): Promise<boolean> {
  const ends = performance.now() + overMs
  let waited = false
  for (let leftMs = overMs; leftMs > 0; leftMs = ends - performance.now()) {
    waited ||= waitsForDisk(pid)
    await sleep(Math.min(lookEveryMs, leftMs))
  }
  return waited || waitsForDisk(pid)
}

/** What a guest writes and reads goes through threads of its process, which its host's disk holds up. */
function waitsForDisk(pid: number): boolean {
  try {
    return readdirSync(`/proc/${pid}/task`).some((thread) => statOf(`${pid}/task/${thread}`)?.state === 'D')
  } catch {
    return false
  }
}

function statOf(pid: number | string): { state: string; began: string } | undefined {
  try {
    // Its name, in brackets, may hold anything.
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1)!.split(' ')
    return { state: fields[0]!, began: fields[19]! }
  } catch {
    return undefined
  }
}
