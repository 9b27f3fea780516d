// Named places if a test can kill, freeze, delay or fail a process, to prove what survives it. Knows no names. Unless a
// failpoint is armed, a hit does nothing.
import { setTimeout as sleep } from 'node:timers/promises'

/** Code calls `hit` at a named place. It continues unless a test has armed that place. */
export interface Failpoints {
  hit(name: string): Promise<void>
}

export class FailpointError extends Error {
  readonly failpoint: string

  constructor(failpoint: string) {
    super(`failpoint ${failpoint}`)
    this.name = 'FailpointError'
    this.failpoint = failpoint
  }
}

type Act = (name: string) => Promise<void> | void

interface Rule {
  act: Act
  /** The hit, counted from 1, at which it acts; undefined for every hit. */
  at: number | undefined
}

const anyName = '*'
const entryForm = /^(?<name>[\w.-]+|\*)=(?<spec>.+)$/
const specForm = /^(?<action>[a-z]+)(?::(?<arg>\d+))?(?:@(?<at>[1-9]\d*))?$/

const actions: Record<string, (arg: number | undefined) => Act> = {
  kill: () => async () => {
    process.kill(process.pid, 'SIGKILL')
    await new Promise(() => {})
  },
  freeze: () => () => void process.kill(process.pid, 'SIGSTOP'),
  throw: () => (name) => {
    throw new FailpointError(name)
  },
  delay:
    (delayMs = 0) =>
    () =>
      sleep(delayMs),
  exit:
    (code = 1) =>
    () =>
      process.exit(code),
  /** Only records the hit: to learn which names exist. */
  pass: () => () => {},
}

/** Nothing is armed. */
export const noFailpoints: Failpoints = { hit: () => Promise.resolve() }

/**
 * Parses failpoints, separated by commas: `name=action[:arg][@n]`. The action is kill, freeze, throw, `delay:ms`, `exit:code`
 * or pass; `@n` acts only at the nth hit; the name `*` matches any. Throws a TypeError with what is wrong.
 */
export function failpointsFrom(text: string): Failpoints {
  const entries = text
    .split(',')
    .map((entry) => entry.trim())
    .filter(Boolean)
  if (entries.length === 0) return noFailpoints
  const armed = new ArmedFailpoints()
  for (const entry of entries) {
    const { name, spec } = entryForm.exec(entry)?.groups ?? {}
    if (!name || !spec) throw new TypeError(`"${entry}" is not a failpoint; write name=action[:arg][@n]`)
    armed.set(name, spec)
  }
  return armed
}

export class ArmedFailpoints implements Failpoints {
  readonly #rules = new Map<string, Rule>()
  readonly #hits: string[] = []
  readonly #counts = new Map<string, number>()
  readonly #listeners: ((name: string) => void)[] = []

  /** Every hit so far, in order. */
  get hits(): readonly string[] {
    return this.#hits
  }

  /** Each name that was hit, once. */
  get names(): string[] {
    return [...new Set(this.#hits)]
  }

  /** Arms that name with `action[:arg][@n]` or a function; undefined disarms it. */
  set(name: string, action: string | Act | undefined): void {
    if (action === undefined) this.#rules.delete(name)
    else this.#rules.set(name, typeof action === 'string' ? parseSpec(action) : { act: action, at: undefined })
  }

  /** Called at every hit, before the failpoint acts. */
  onHit(listener: (name: string) => void): void {
    this.#listeners.push(listener)
  }

  async hit(name: string): Promise<void> {
    const nth = (this.#counts.get(name) ?? 0) + 1
    this.#counts.set(name, nth)
    this.#hits.push(name)
    for (const listener of this.#listeners) listener(name)
    const rule = this.#rules.get(name) ?? this.#rules.get(anyName)
    if (!rule) return
    const count = this.#rules.has(name) ? nth : this.#hits.length
    if (rule.at === undefined || rule.at === count) await rule.act(name)
  }
}

function parseSpec(spec: string): Rule {
  const { action = '', arg, at } = specForm.exec(spec)?.groups ?? {}
  const make = Object.hasOwn(actions, action) ? actions[action] : undefined
  if (!make)
    throw new TypeError(
      `"${spec}" is not a failpoint action; write one of ${Object.keys(actions).join(', ')}, then [:arg][@n]`,
    )
  return { act: make(arg === undefined ? undefined : Number(arg)), at: at === undefined ? undefined : Number(at) }
}
