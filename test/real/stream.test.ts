// Guarantee: a desktop on real QEMU is seen and used from a real browser, by whoever holds the claim, and by nobody else.
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import {
  type AdminClient,
  type Client,
  ConnectionError,
  createAdminClient,
  createClient,
  type Desktop,
  type InputAction,
  UnavailableError,
} from '@dormouse/client'
import type { Page } from 'playwright-core'
import { PNG } from 'pngjs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { signal } from '../../scripts/testbed/processes.ts'
import { waitFor } from '../wait-for.ts'
import { Browser, history, keep, says } from './parts/browser.ts'
import { Cable } from './parts/cable.ts'
import { Instance } from './parts/instance.ts'
import { german, loadGermanKeys, press } from './parts/keyboards.ts'
import { guest } from './parts/witness.ts'

const long = process.env.DORMOUSE_TEST_LONG === '1'
const bin = fileURLToPath(new URL('../../node_modules/.bin/dormouse', import.meta.url))

let instance: Instance
let browser: Browser
let desktop: Desktop
/** The replica where pages are, and the other one. */
let home: string
let other: string
beforeAll(async () => {
  instance = await Instance.start({}, long ? ['--no-tour', '--replicas', '2'] : ['--no-tour'])
  home = instance.local.base_url
  other = instance.urls.find((url) => url !== home)!
  browser = await Browser.start()
  desktop = await instance.create()
  await desktop.wake()
})
afterAll(async () => {
  await browser?.[Symbol.asyncDispose]()
  await instance?.[Symbol.asyncDispose]()
})

async function open(claim: 'view' | 'control', more: { takeover?: boolean } = {}): Promise<Page> {
  const page = await browser.open((await desktop.stream.getUrl({ claim, ...more })).url)
  await says(page, 'live')
  return page
}

/** Types a command on the screen, with keys that need no shift, which the driver of the browser would not press. */
async function type(page: Page, word: string): Promise<void> {
  await page.keyboard.type(`echo ${word}; touch /run/${word}\n`, { delay: 15 })
}
const isTyped = (word: string, withinMs?: number): Promise<true> =>
  waitFor(async () => {
    // A replica that is being started hears nobody yet, or has no way to the host.
    const looked = await desktop.commands.run(['test', '-e', `/run/${word}`]).catch(unlessUnavailable)
    return looked?.exitCode === 0
  }, withinMs)

/** The page has the guest's keyboard: that one keeps 16 bytes, so what a starved guest lets fall is typed again. */
async function controls(page: Page, word: string): Promise<void> {
  await waitFor(async () => {
    await type(page, word)
    return isTyped(word, 15_000).catch(() => false as const)
  })
}

function unlessUnavailable(error: unknown): undefined {
  if (!(error instanceof UnavailableError || error instanceof ConnectionError)) throw error
}

/** The text of the guest's console, as the guest itself has it. */
const onScreen = (): Promise<string> => guest(desktop, 'fold -w 80 /dev/vcs1')

const picture = async (): Promise<string> => Buffer.from(await desktop.screenshot()).toString('base64')

/** Another client of the same organisation. */
async function anotherClient(name: string): Promise<Client & { keyId: string }> {
  const { api_key, id } = await admin().createKey({ org_id: desktop.orgId, name })
  return { ...createClient({ baseUrl: instance.local.base_url, apiKey: api_key }), keyId: id }
}
const admin = (): AdminClient =>
  createAdminClient({ baseUrl: instance.local.base_url, operatorKey: instance.local.operator_key })

test('the page shows the guest’s console, and what is typed there is done and seen', async () => {
  const page = await open('control')
  expect(await page.textContent('#badge')).toBe('Control')
  const before = await picture()
  await type(page, 'one')
  await isTyped('one')
  expect(await onScreen()).toMatch(/^one /m)
  await waitFor(async () => (await picture()) !== before)
  await keep(page, 'control')
  expect(page.url()).not.toContain('#')
  await page.close()
})

test('keys pass by position, and the guest’s layout makes ü, ß, @, € and é of them', async () => {
  const page = await open('control')
  await page.keyboard.type('tee /run/letters\n', { delay: 15 })
  await waitFor(async () => (await desktop.commands.run(['test', '-e', '/run/letters'])).exitCode === 0)
  const asBefore = await loadGermanKeys(desktop)
  await press(page, [german.ü, german.ß, german.z])
  await press(page, [german.at, german.euro], true)
  await press(page, [german.acute, { key: 'é', code: 'KeyE' }, german.enter])
  const letters = await waitFor(() => guest(desktop, 'cat /run/letters'))
  await asBefore()
  expect(letters).toBe('üßz@€é\n')
  await keep(page, 'letters')
  await page.keyboard.press('Control+d')
  // A page that is closed at once may take its last key along.
  await waitFor(async () => (await desktop.commands.run(['pidof', 'tee'])).exitCode !== 0)
  await page.close()
})

test('a viewer’s page shows the screen and changes nothing, even if it sends keys', async () => {
  const page = await open('view')
  expect(await page.textContent('#badge')).toBe('View only')
  await type(page, 'two')
  // The page is made to send what its own code would not: keys, over its very socket, before all else it says.
  await page.evaluate(() => {
    const send = WebSocket.prototype.send
    const told = globalThis as unknown as { sent: number }
    told.sent = 0
    WebSocket.prototype.send = function (data) {
      for (const sym of [0x72, 0x65, 0x62, 0x6f, 0x6f, 0x74, 0xff0d]) {
        for (const down of [1, 0]) send.call(this, Uint8Array.of(4, down, 0, 0, 0, 0, sym >> 8, sym & 255))
      }
      told.sent++
      send.call(this, data)
    }
  })
  await waitFor(() => page.evaluate(() => (globalThis as unknown as { sent: number }).sent > 5))
  const control = await open('control')
  await controls(control, 'three')
  // Whatever came before would stand on the screen, and on the line that the controller typed.
  expect(await onScreen()).not.toMatch(/two|reboot/)
  expect(await page.getAttribute('body', 'data-state')).toBe('live')
  await keep(page, 'view')
  await page.close()
  await control.close()
})

test('another client is refused until it takes over; then the first page says so, and a revoked key ends its own', async () => {
  // Whoever an earlier try has left there.
  const first = await open('control', { takeover: true })
  const client = await anotherClient('other')
  await expect(client.openStream(desktop.id, { claim: 'control' })).rejects.toMatchObject({
    status: 409,
    problem: { code: 'claim_held', detail: expect.stringMatching(/until \d{4}-/) },
  })
  const began = performance.now()
  const { url } = await client.openStream(desktop.id, { claim: 'control', takeover: true })
  await says(first, 'taken-over')
  console.log(`taken over: the first page said so after ${Math.round(performance.now() - began)} ms`)
  await keep(first, 'taken-over')
  const [entry] = (await admin().listAudit()).entries
  expect(entry).toMatchObject({ actor: `key:${client.keyId}`, action: 'stream.takeover', subject: desktop.id })
  const second = await browser.open(url)
  await says(second, 'live')
  await admin().revokeKey(client.keyId)
  await says(second, 'ended')
  await first.close()
  await second.close()
})

test('a used or forged link, or one for another desktop or claim, opens nothing and says so', async () => {
  const fresh = async () => (await desktop.stream.getUrl({ claim: 'view' })).url
  const used = await fresh()
  const first = await browser.open(used)
  await says(first, 'live')
  const asleep = await instance.create()
  const links = [
    used,
    (await fresh()).replace(/#.*/, `#${'a'.repeat(43)}`),
    (await fresh()).replace(desktop.id, asleep.id),
    (await fresh()).replace('/view#', '/control#'),
  ]
  for (const link of links) {
    const page = await browser.open(link)
    await says(page, 'ended')
    await page.close()
  }
  expect(await first.getAttribute('body', 'data-state')).toBe('live')
  await first.close()
  await asleep.destroy()
})

test('the command line opens the screen, and takes a picture of it', async () => {
  const dormouse = async (...words: string[]) => {
    const env = { ...process.env, DORMOUSE_DATA: instance.dataDir }
    return (await promisify(execFile)(bin, words, { env, encoding: 'buffer' })).stdout
  }
  const page = await browser.open((await dormouse('open', desktop.id, '--view')).toString().trim())
  await says(page, 'live')
  const { width, height } = PNG.sync.read(await dormouse('screenshot', desktop.id, '-'))
  expect({ width, height }).toEqual({ width: 720, height: 400 })
  await page.close()
})

/** A claim is held for 30 s; shorter than that, no length is worth the wait in every run. */
const cutMs = long ? 20_000 : 5_000

test(`a reload and a cut of ${cutMs / 1_000} s keep the claim`, async () => {
  await using cable = await Cable.to(Number(new URL(instance.local.base_url).port))
  const { url } = await desktop.stream.getUrl({ claim: 'control', takeover: true })
  const page = await browser.open(url.replace(/:\d+\//, `:${cable.port}/`))
  await says(page, 'live')
  await page.reload()
  await says(page, 'live')
  const client = await anotherClient('second')
  cable.cut()
  const cutAt = performance.now()
  await says(page, 'reconnecting')
  await keep(page, 'reconnecting')
  await waitFor(() => performance.now() - cutAt > cutMs)
  await expect(client.openStream(desktop.id, { claim: 'control' })).rejects.toMatchObject({ status: 409 })
  cable.mend()
  await says(page, 'live')
  await controls(page, 'four')
  await page.close()
})

test('the page says that its desktop sleeps, and shows it again when it wakes', async () => {
  const page = await open('control')
  await controls(page, 'five')
  await desktop.hibernate()
  await says(page, 'asleep')
  await keep(page, 'asleep')
  await desktop.wake()
  await says(page, 'live')
  await controls(page, 'six')
  await page.close()
})

/** Its console keeps 16 bytes of keys: what a starved guest loses is typed again, more slowly. */
async function typeByProgram(text: string, file: string): Promise<string> {
  for (const paceMs of [20, 60, 120]) {
    await guest(desktop, `rm -f ${file}`)
    await desktop.input([{ type: 'type', text: `\ncat > ${file}\n${text}\n` }], { paceMs, takeover: true })
    const { outcome, screenshot } = await desktop.input([{ type: 'key', keys: ['ctrl', 'd'] }], {
      ...{ paceMs, settle: true, screenshot: { fit: 320 } },
    })
    expect([outcome, typeof screenshot?.data]).toEqual(['done', 'string'])
    const typed = await guest(desktop, `cat ${file} || true`)
    if (typed.trimEnd() === text) return typed.trimEnd()
  }
  return guest(desktop, `cat ${file} || true`)
}

test('what a program types arrives as it was typed', async () => {
  const text = 'Hello_World-42 (a>b) & {x|y} #~$\nFOO\nFOO'
  expect(await typeByProgram(text, '/run/typed')).toBe(text)
})

test('the agent is killed in the middle of a batch: it is unknown, not repeated, and no key stays pressed', async () => {
  const idempotencyKey = 'killed'
  const actions: InputAction[] = [
    { type: 'type', text: '\ncat > /run/held\nbegun\n' },
    { type: 'hold', keys: ['Shift'], ms: 40_000 },
    { type: 'type', text: 'NEVER' },
  ]
  const sent = desktop.input(actions, { idempotencyKey })
  await waitFor(async () => (await guest(desktop, 'cat /run/held || true')).includes('begun'))
  await instance.kill('agent')
  expect(await sent).toMatchObject({ outcome: 'unknown', performed: null })
  await waitFor(() => guest(desktop, 'true').then(() => true, unlessUnavailable))
  expect(await desktop.input(actions, { idempotencyKey })).toMatchObject({ outcome: 'unknown' })
  await desktop.input(
    [
      { type: 'type', text: 'small\n' },
      { type: 'key', keys: ['ctrl', 'd'] },
    ],
    { settle: true },
  )
  expect((await guest(desktop, 'cat /run/held')).trimEnd()).toBe('begun\nsmall')
})

/** The page breaks off at that moment, says so, and is back by itself. */
async function comesBack(page: Page, after: () => unknown): Promise<void> {
  const before = (await history(page)).length
  await after()
  const since = async () => (await history(page)).slice(before)
  await waitFor(async () => (await since()).includes('reconnecting'))
  await says(page, 'live')
}

test('the agent is killed: a screenshot in progress answers 503, and the page reconnects', async () => {
  const { base_url, api_key } = instance.local
  const client = createClient({ baseUrl: base_url, apiKey: api_key, retries: 0 })
  const page = await open('control')
  // Whoever is asked does not answer any more.
  signal(instance.process('agent')!, 'SIGSTOP')
  const asked = client.screenshot(desktop.id)
  const lost = expect(asked).rejects.toMatchObject({ status: 503, problem: { code: 'host_unreachable' } })
  await comesBack(page, () => instance.kill('agent'))
  await lost
  await controls(page, 'seven')
  await page.close()
})

const portOf = (url: string): number => Number(new URL(url).port)
const leads = (url: string): Promise<true> => waitFor(() => instance.local.base_url === url)

test.runIf(long)('the leader is killed: its page reconnects, the new leader’s is not interrupted', async () => {
  await leads(home)
  const page = await open('control')
  expect(page.url()).toContain(home)
  await comesBack(page, () => instance.kill(instance.replicaAt(home)))
  await controls(page, 'eight')
  await keep(page, 'leader-killed')
  await leads(other)
  const states = await history(page)
  await instance.kill(instance.replicaAt(other))
  await leads(home)
  await controls(page, 'nine')
  expect(await history(page)).toEqual(states)
  await page.close()
})

// At length only: what the page does then is the same as when the leader is killed.
test.runIf(long)(
  'a page whose replica ends reconnects to the next replica at its address; if there is none, it says so in the end',
  async () => {
    await using cable = await Cable.to(portOf(home))
    const { url } = await desktop.stream.getUrl({ claim: 'control', takeover: true })
    const page = await browser.open(url.replace(/:\d+\//, `:${cable.port}/`), (opening) => opening.clock.install())
    await says(page, 'live')
    cable.moveTo(portOf(other))
    await comesBack(page, () => instance.kill(instance.replicaAt(home)))
    await controls(page, 'ten')
    cable.cut()
    await says(page, 'reconnecting')
    await keep(page, 'no-replica')
    await page.clock.fastForward(301_000)
    await says(page, 'lost')
    expect(await page.textContent('#notice')).toContain(`dormouse get ${desktop.id}`)
    await keep(page, 'no-replica-for-minutes')
    await page.close()
    await leads(other)
    await instance.kill(instance.replicaAt(other))
    await leads(home)
  },
)

test.runIf(long)(
  'the leader freezes: its page notices, and reconnects to the replica that its address leads to',
  async () => {
    await using cable = await Cable.to(portOf(home))
    const { url } = await desktop.stream.getUrl({ claim: 'control', takeover: true })
    const page = await browser.open(url.replace(/:\d+\//, `:${cable.port}/`), (opening) => opening.clock.install())
    await says(page, 'live')
    const frozen = instance.process(instance.replicaAt(home))!
    try {
      await comesBack(page, async () => {
        signal(frozen, 'SIGSTOP')
        cable.moveTo(portOf(other))
        await page.clock.fastForward(16_000)
      })
      await leads(other)
      await type(page, 'eleven')
    } finally {
      signal(frozen, 'SIGCONT')
    }
    await isTyped('eleven')
    expect(await page.getAttribute('body', 'data-state')).toBe('live')
    await page.close()
    await instance.kill(instance.replicaAt(other))
    await leads(home)
  },
)

test('the page contacts only the service, and the browser logs no error', async () => {
  const origins = new Set(browser.asked.map((url) => new URL(url).host))
  expect([...origins].filter((host) => !host.startsWith('127.0.0.1:'))).toEqual([])
  expect(browser.referrers).toEqual([])
  expect(browser.complaints).toEqual([])
})

test('no token that opened a screen is in any log', () => {
  const tokens = browser.asked.filter((url) => url.startsWith('ws:')).map((url) => url.slice(-43))
  expect(tokens.length).toBeGreaterThan(10)
  const logs = instance.logs
  expect(logs).toContain('a screen was opened')
  expect(tokens.filter((token) => logs.includes(token))).toEqual([])
})

test('a destroyed desktop’s page says so', async () => {
  const page = await open('view')
  await desktop.destroy()
  await says(page, 'destroyed')
  await page.close()
})
