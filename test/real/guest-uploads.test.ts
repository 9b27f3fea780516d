// Guarantee: a file of a gigabyte arrives whole although its client, the host's agent and the control plane are each cut off
// on the way.
import { createHash, randomBytes } from 'node:crypto'
import { mkdtempSync, openAsBlob, rmSync, writeSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createClient, Desktop } from '@dormouse/client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { GuestStage } from './parts/guest-stage.ts'
import type { Instance } from './parts/instance.ts'

const mib = 1024 * 1024
const sizeMiB = 1024

let instance: Instance
let stage: GuestStage
let folder: string
let file: string
let digest: string
beforeAll(async () => {
  instance = await GuestStage.instance()
  stage = await GuestStage.on(instance, 'ssh')
  folder = mkdtempSync(join(tmpdir(), 'dormouse-upload-'))
  file = join(folder, 'large')
  const hash = createHash('md5')
  const handle = await open(file, 'w')
  for (let i = 0; i < sizeMiB / 32; i++) {
    const bytes = randomBytes(32 * mib)
    hash.update(bytes)
    writeSync(handle.fd, bytes)
  }
  await handle.close()
  digest = hash.digest('hex')
})
afterAll(async () => {
  await instance?.[Symbol.asyncDispose]()
  if (folder) rmSync(folder, { recursive: true })
})

test('1 GiB with three cuts', { timeout: 1_800_000 }, async () => {
  const cuts: Record<number, () => Promise<void>> = {
    200: async () => {
      const now = cut
      cut = new AbortController()
      now.abort()
    },
    450: () => instance.kill('agent'),
    700: () => instance.kill('control plane'),
  }
  let cut = new AbortController()
  const { base_url: baseUrl, api_key: apiKey } = instance.local
  const client = createClient({
    baseUrl,
    apiKey,
    // A connection that is lost, as the SDK sees it.
    fetch: (url, init) => fetch(url, { ...init, signal: AbortSignal.any([init!.signal!, cut.signal]) }),
  })
  const desktop = await Desktop.connect(stage.desktop.id, { client })
  const pending = Object.keys(cuts).map(Number)
  const started = performance.now()
  const happened: Promise<void>[] = []
  const done = await desktop.files.upload('/srv/large', await openAsBlob(file), {
    retries: 30,
    onProgress: (offset) => {
      if (offset / mib < (pending[0] ?? Infinity)) return
      // In the middle of the next piece.
      const act = cuts[pending.shift()!]!
      setTimeout(() => happened.push(act()), 200)
    },
  })
  await Promise.all(happened)
  const secs = (performance.now() - started) / 1_000
  console.info(`1 GiB with three cuts: ${secs.toFixed(0)} s, ${(sizeMiB / secs).toFixed(1)} MiB/s`)
  expect([pending, happened.length, done.offset]).toEqual([[], 3, sizeMiB * mib])
  await stage.works()
  expect((await stage.exec('md5sum </srv/large', { timeout_secs: 300 })).stdout.slice(0, 32)).toBe(digest)
  expect(await stage.run('ls -a /srv | grep -c dormouse || :')).toBe('0\n')
})
