// Guarantee: many guests' screens are shown at once on one host, each its own and live; a viewer that never reads holds up
// nobody, and neither agent nor control plane keeps for it what it does not read.
import { readdirSync, readFileSync } from 'node:fs'
import { createAdminClient, type Desktop } from '@dormouse/client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { RfbClient } from '../integration/parts/rfb-client.ts'
import { waitFor } from '../wait-for.ts'
import { Instance } from './parts/instance.ts'
import { guest } from './parts/witness.ts'

const atLength = process.env.DORMOUSE_TEST_LONG === '1'
/** Fifty guests take some 10 GB of memory, and minutes until they are up. */
const many = atLength ? 50 : 3
/** So many are drawn for one who never reads: more than agent and control plane may grow by. */
const [pictures, mostMiB] = atLength ? [200, 100] : [80, 64]
/** An emulated guest takes a processor while it boots. */
const bootsAtOnce = 3
const mebibyte = 2 ** 20

let instance: Instance
let desktops: Desktop[]
let viewers: RfbClient[]
beforeAll(async () => {
  instance = await Instance.start({
    DORMOUSE_TIER_SMALL: '1,128,1',
    DORMOUSE_AGENT_PROCESSORS: String(many / 4),
    DORMOUSE_AGENT_MEMORY_MIB: String(many * 128),
  })
  desktops = await Promise.all(Array.from({ length: many }, () => instance.create()))
  await inTurns(desktops, (desktop) => desktop.wake())
}, 420_000)
afterAll(async () => {
  // Quicker than the sleep that each would be put to.
  await inTurns(desktops ?? [], (desktop) => desktop.destroy())
  await instance?.[Symbol.asyncDispose]()
})

async function inTurns<T>(list: T[], work: (one: T, index: number) => Promise<unknown>): Promise<void> {
  const left = list.entries()
  const worker = async () => {
    for (const [index, one] of left) await work(one, index)
  }
  await Promise.all(Array.from({ length: bootsAtOnce }, worker))
}

const columns = 80
const bits = 8

/** Has the guest's console show a number, as a row of white and blue fields for its bits. */
async function show(desktop: Desktop, number: number): Promise<void> {
  const fields = Array.from(
    { length: bits },
    (_, i) => `\\033[4${(number >> i) & 1 ? 7 : 4}m${' '.repeat(columns / bits)}`,
  )
  const rows = Array.from({ length: 20 }, (_, row) => `\\033[${row + 3};1H${fields.join('')}`)
  await guest(desktop, `printf '\\033[?25l\\033[2J${rows.join('')}\\033[0m' > /dev/tty1`)
}

/** The number that a picture shows. A pixel is blue, green, red and a byte more. */
function numberIn(picture: Buffer, { width, height }: RfbClient): number {
  const isWhite = (i: number) =>
    picture[(Math.floor(height / 2) * width + Math.floor(((i + 0.5) * width) / bits)) * 4 + 2]! > 80
  return Array.from({ length: bits }, (_, i) => Number(isWhite(i)) << i).reduce((sum, one) => sum + one, 0)
}

const seen = async (viewer: RfbClient): Promise<number> => numberIn(await viewer.frame(), viewer)
const shows = (viewer: RfbClient, number: number): Promise<true> =>
  waitFor(async () => (await seen(viewer)) === number, 30_000)

const processes = ['agent', 'control plane'] as const
type Of<T> = Record<(typeof processes)[number], T>
const ofEach = <T>(look: (pid: number) => T): Of<T> =>
  Object.fromEntries(processes.map((name) => [name, look(instance.process(name)!.pid)])) as Of<T>

const residentMiB = (pid: number): number =>
  (Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) * 1024) / mebibyte

const cpuMs = (pid: number): number =>
  readdirSync(`/proc/${pid}/task`)
    .map((task) => Number(readFileSync(`/proc/${pid}/task/${task}/schedstat`, 'utf8').split(' ')[0]) / 1e6)
    .reduce((sum, one) => sum + one, 0)

/** What the work has cost each of them; memory is what they held at the end, above what they held before. */
async function costs(what: string, work: () => Promise<unknown>): Promise<Of<number>> {
  const [memory, cpu, began] = [ofEach(residentMiB), ofEach(cpuMs), performance.now()]
  await work()
  const secs = ((performance.now() - began) / 1_000).toFixed(1)
  const [grown, used] = [ofEach(residentMiB), ofEach(cpuMs)]
  for (const name of processes) {
    console.info(
      `${what}, ${name}: ${Math.round(memory[name])} → ${Math.round(grown[name])} MiB, ${Math.round(used[name] - cpu[name])} ms of processor in ${secs} s`,
    )
  }
  return { agent: grown.agent - memory.agent, 'control plane': grown['control plane'] - memory['control plane'] }
}

test(`${many} viewers of ${many} desktops on one host each see their own, and what changes on it`, async () => {
  await inTurns(desktops, show)
  const grown = await costs(`${many} viewers, a picture each`, async () => {
    const streams = await Promise.all(desktops.map((desktop) => desktop.stream.getUrl({ claim: 'control' })))
    viewers = await Promise.all(streams.map(({ websocketUrl }) => RfbClient.connect(websocketUrl)))
    expect(await Promise.all(viewers.map(seen))).toEqual(viewers.map((_, i) => i))
  })
  await inTurns(desktops, (desktop, i) => show(desktop, 255 - i))
  await Promise.all(viewers.map((viewer, i) => shows(viewer, 255 - i)))
  // Beside what any burst leaves behind in them.
  for (const name of processes) expect(grown[name]).toBeLessThan(100 + 2 * many)
})

/** Something on its console changes all the time, until the work is done: QEMU looks less often at one that stands still. */
async function drawing(desktop: Desktop, work: () => Promise<unknown>): Promise<void> {
  const endless = 'i=0; while [ ! -e /run/still ]; do printf "\\033[1;1H$((i += 1))"; sleep 0.02; done > /dev/tty1'
  await guest(desktop, `rm -f /run/still; setsid sh -c '${endless}' < /dev/null > /dev/null 2>&1 &`)
  await work()
  await guest(desktop, 'touch /run/still')
}

test('a viewer that never reads uses no memory, and does not disturb the others', async () => {
  const [deaf, ...others] = viewers as [RfbClient, ...RfbClient[]]
  const { websocketUrl } = await desktops[0]!.stream.getUrl({ claim: 'view' })
  const neighbour = await RfbClient.connect(websocketUrl)
  const admin = createAdminClient({ baseUrl: instance.local.base_url, operatorKey: instance.local.operator_key })
  const beat = async () => (await admin.listHosts()).hosts[0]!
  const beatAt = async () => Date.parse((await beat()).last_heartbeat_at!)
  /** QEMU draws for both at once, as long as they take it: what the one has received was there for the other, too. */
  const lookTogether = async () => {
    for (let i = 0; i < pictures; i++) {
      deaf.ask()
      await neighbour.frame()
    }
  }
  const lookAround = async () => {
    for (let round = 0; round < 5; round++) await Promise.all(others.map(seen))
    const echoes = await Promise.all(desktops.map((desktop, i) => guest(desktop, `echo ${i}`)))
    expect(echoes).toEqual(desktops.map((_, i) => `${i}\n`))
  }
  const grown = await costs(`one of ${many} never reads`, () =>
    drawing(desktops[0]!, async () => {
      deaf.socket.pause()
      await Promise.all([lookTogether(), lookAround()])
    }),
  )
  const before = await beatAt()
  await costs('while nothing happens, until the next heartbeat', () =>
    waitFor(async () => (await beatAt()) > before, 15_000),
  )
  expect(await beat()).toMatchObject({ linked: true, state: 'active' })
  const offeredMiB = (pictures * deaf.width * deaf.height * 4) / mebibyte
  expect(offeredMiB).toBeGreaterThan(mostMiB + 10)
  for (const name of processes) expect(grown[name]).toBeLessThan(mostMiB)
  await show(desktops[0]!, 77)
  deaf.socket.resume()
  await shows(deaf, 77)
  for (const viewer of [neighbour, ...viewers]) viewer.close()
  await Promise.all(viewers.map(({ closed }) => closed))
})
