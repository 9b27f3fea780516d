// How long no mutation is accepted after the leader was killed, stopped or frozen, while callers go on sending keyed creates
// to both replicas; and whether any of those was done twice.
import { setTimeout as sleep } from 'node:timers/promises'
import { type Identity, signal } from '../../../scripts/testbed/processes.ts'
import { send } from '../../integration/parts/api.ts'
import { Instance } from '../../real/parts/instance.ts'
import { waitFor } from '../../wait-for.ts'
import { spreadOf } from '../statistics.ts'
import type { Row, Subject } from '../subject.ts'

const callers = 4
const signals = [
  { name: 'SIGKILL', what: 'killed', goalMs: 1_000 },
  { name: 'SIGTERM', what: 'stopped', goalMs: 300 },
  // Four times the others' time: the lease must run out.
  { name: 'SIGSTOP', what: 'frozen', goalMs: 4_000 },
] as const

export const failover: Subject = {
  name: 'failover',
  what: 'time until a mutation is accepted after the leader of two replicas was killed, stopped or frozen',
  hosts: 'simulated',
  seconds: { fixed: 15, perRound: 14 },
  run: async ({ rounds, say }) => {
    await using instance = await Instance.start({}, ['--no-tour', '--simulated', '1', '--replicas', '2'])
    const creates = new KeyedCreates(instance)
    const stop = creates.keepSending(callers)
    const rows: Row[] = []
    for (const { name, what, goalMs } of signals) {
      const all: number[] = []
      for (let round = 0; round < rounds; round++) all.push(await gapOf(instance, creates, `${name} ${round}`, name))
      const row = { subject: 'failover', unit: 'ms', better: 'less', goal: { figure: goalMs } } as const
      rows.push({ ...row, name: `leader ${what}, until a mutation is accepted`, figures: { ours: spreadOf(all) } })
      say(`failover, leader ${what}: done`)
    }
    await stop()
    return [...rows, await creates.doneTwice()]
  },
}

/** Creates that are sent with their own key to both replicas until one of them has accepted each. */
class KeyedCreates {
  readonly #instance: Instance
  readonly #keys = new Set<string>()

  constructor(instance: Instance) {
    this.#instance = instance
  }

  async accepted(key: string): Promise<void> {
    this.#keys.add(key)
    const { urls, local } = this.#instance
    const request = { key: local.api_key, body: { tier: 'small' }, headers: { 'idempotency-key': key } }
    const ask = async (url: string) => {
      // A frozen replica does not answer.
      const { status } = await send(`${url}/v1/desktops`, 'POST', { ...request, signal: AbortSignal.timeout(500) })
      if (status >= 300) throw new Error(`refused: ${status}`)
    }
    const isAccepted = () =>
      Promise.any(urls.map(ask)).then(
        () => true,
        () => false,
      )
    while (!(await isAccepted())) await sleep(2)
  }

  /** Returns what ends it. */
  keepSending(count: number): () => Promise<void> {
    const stopping = new AbortController()
    const sending = Array.from({ length: count }, async (_, caller) => {
      for (let at = 0; !stopping.signal.aborted; at++) await this.accepted(`${caller}.${at}`)
    })
    return async () => {
      stopping.abort()
      await Promise.all(sending)
    }
  }

  /** How many more desktops there are than keys. */
  async doneTwice(): Promise<Row> {
    const { desktops } = await this.#instance.client.listDesktops()
    const twice = spreadOf([desktops.length - this.#keys.size])
    const row = { subject: 'failover', name: 'keyed creates that were done twice', unit: 'count' } as const
    return { ...row, better: 'less', figures: { ours: twice }, goal: { figure: 0 } }
  }
}

/** Milliseconds from the signal until the next mutation is accepted. Both replicas are ready again when it returns. */
async function gapOf(instance: Instance, creates: KeyedCreates, key: string, name: NodeJS.Signals): Promise<number> {
  const victim = await leaderOf(instance)
  const began = performance.now()
  signal(victim, name)
  await creates.accepted(key)
  const tookMs = performance.now() - began
  signal(victim, 'SIGCONT')
  for (const url of instance.urls)
    await waitFor('the replica to be ready', async () => (await ready(url))?.status === 200)
  return tookMs
}

async function leaderOf(instance: Instance): Promise<Identity> {
  const number = await waitFor('one leader', async () => {
    const [first, second] = await Promise.all(
      instance.urls.map(async (url) => (await ready(url))?.json?.leads === true),
    )
    return first !== second && (first ? 1 : 2)
  })
  return waitFor('its process', () => instance.process(`control plane ${number}`))
}

const ready = (url: string) => send(`${url}/readyz`, 'GET', {}).catch(() => undefined)
