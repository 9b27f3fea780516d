// `node test/bench/failover.ts`: how long nobody accepts a mutation after the leader was killed, stopped or frozen, while
// others go on sending keyed requests to both replicas; and whether any of those was done twice. Figures, no verdicts.
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { type Identity, signal } from '../../scripts/ground/processes.ts'
import { send } from '../house/parts/api.ts'
import { Instance } from '../real/parts/instance.ts'
import { waitFor } from '../wait-for.ts'

const { values } = parseArgs({ options: { rounds: { type: 'string', default: '5' } } })
const rounds = Number(values.rounds)
const hammers = 4

await using instance = await Instance.start({}, ['--no-tour', '--simulated', '1', '--replicas', '2'])
const key = instance.local.api_key
const stopping = new AbortController()
const names = new Set<string>()

/** Sends the same request to both, again and again, until one of them has accepted it. */
async function create(name: string): Promise<void> {
  names.add(name)
  const wish = { key, body: { tier: 'small' }, headers: { 'idempotency-key': name } }
  const ask = async (url: string) => {
    // One that is frozen answers nothing.
    const { status } = await send(`${url}/v1/desktops`, 'POST', { ...wish, signal: AbortSignal.timeout(500) })
    if (status >= 300) throw new Error(`not this one: ${status}`)
  }
  const anyAccepts = () =>
    Promise.any(instance.urls.map(ask)).then(
      () => true,
      () => false,
    )
  while (!(await anyAccepts())) await sleep(2)
}

const hammering = Array.from({ length: hammers }, async (_, hammer) => {
  for (let at = 0; !stopping.signal.aborted; at++) await create(`${hammer}.${at}`)
})

const leads = async (url: string) =>
  (await send(`${url}/readyz`, 'GET', {}).catch(() => undefined))?.json?.leads === true

/** Milliseconds from the blow to the next mutation that is accepted. */
async function gap(name: string, blow: (leader: Identity) => void): Promise<number> {
  const leader = await waitFor(async () => {
    const [first, second] = await Promise.all(instance.urls.map(leads))
    return first !== second && (first ? 1 : 2)
  }, 30_000)
  const victim = await waitFor(() => instance.process(`control plane ${leader}`), 10_000)
  const began = performance.now()
  blow(victim)
  await create(name)
  const tookMs = performance.now() - began
  signal(victim, 'SIGCONT')
  for (const url of instance.urls)
    await waitFor(async () => (await send(`${url}/readyz`, 'GET', {}).catch(() => undefined))?.status === 200, 30_000)
  return tookMs
}

const figures: Record<string, object> = {}
for (const [name, count] of [
  ['SIGKILL', rounds],
  ['SIGTERM', rounds],
  ['SIGSTOP', Math.ceil(rounds / 4)],
] as const) {
  const all: number[] = []
  for (let round = 0; round < count; round++) {
    all.push(await gap(`${name} ${round}`, (victim) => signal(victim, name)))
    console.log(`${name} ${round + 1} of ${count}: ${Math.round(all.at(-1)!)} ms`)
  }
  all.sort((a, b) => a - b)
  const at = (part: number) => Math.round(all[Math.min(all.length - 1, Math.floor(all.length * part))]!)
  figures[`${name} to the next accepted mutation, ms`] = { rounds: count, min: at(0), p50: at(0.5), max: at(1) }
}
stopping.abort()
await Promise.all(hammering)
console.table(figures)

let desktops = 0
for (let cursor: string | undefined = ''; cursor !== undefined; ) {
  const page = await instance.client.listDesktops({ limit: 500, ...(cursor && { cursor }) })
  desktops += page.desktops.length
  cursor = page.next
}
console.log(`${names.size} keyed creates sent to both replicas meanwhile made ${desktops} desktops`)
