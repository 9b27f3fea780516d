// Guarantee: a file of a gigabyte arrives whole although its client, the host's agent and the control plane are each cut off
// on the way, and a folder is the same after it went in and came out.
import { execFileSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { mkdirSync, mkdtempSync, openAsBlob, rmSync, symlinkSync, writeFileSync, writeSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createClient, Desktop } from '@dormouse/client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { typed } from './parts/command-line.ts'
import { GuestStage } from './parts/guest-stage.ts'
import { Instance } from './parts/instance.ts'

const mib = 1024 * 1024
const sizeMiB = 1024

let instance: Instance
let stage: GuestStage
let folder: string
let file: string
let digest: string
beforeAll(async () => {
  instance = await Instance.start()
  stage = await GuestStage.awake(instance)
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

test('a folder with difficult names, modes and a file of several parts goes in and comes out', async () => {
  const [out, back] = [join(folder, 'site'), join(folder, 'back')]
  mkdirSync(join(out, 'deep/er'), { recursive: true })
  mkdirSync(join(out, 'empty'), { mode: 0o750 })
  const files: Record<string, [bytes: Uint8Array, mode: number]> = {
    'two\nlines': [Buffer.from('text\n'), 0o644],
    'Grüße 🐹': [Buffer.alloc(0), 0o600],
    '-rf': [Buffer.from([0, 255, 10]), 0o640],
    'deep/er/run me': [Buffer.from('#!/bin/sh\necho ran\n'), 0o755],
    'deep/large': [randomBytes(40 * mib), 0o644],
  }
  for (const [name, [bytes, mode]] of Object.entries(files)) writeFileSync(join(out, name), bytes, { mode })
  for (let i = 0; i < 200; i++) writeFileSync(join(out, `deep/many-${i}`), String(i))
  symlinkSync('deep', join(out, 'link'))
  const copy = async (from: string, to: string) => {
    const { code, stdout, stderr } = await typed(instance, ['cp', '-r', '--json', from, to])
    expect([code, stderr]).toEqual([0, ''])
    return JSON.parse(stdout)
  }
  const size = Object.values(files).reduce((sum, [bytes]) => sum + bytes.length, 0) + 490
  const whole = { files: 205, folders: 4, size }
  expect(await copy(out, `${stage.desktop.id}:/srv/site`)).toMatchObject({ ...whole, skipped: ['link'] })
  expect((await stage.exec(['/srv/site/deep/er/run me'])).stdout).toBe('ran\n')
  expect(await copy(`${stage.desktop.id}:/srv/site`, back)).toMatchObject(whole)
  rmSync(join(out, 'link'))
  const listed = (root: string) =>
    execFileSync('sh', ['-c', `find . -type f -exec md5sum {} + | sort; find . -printf '%m %y %p\\n' | sort`], {
      cwd: root,
      encoding: 'utf8',
    })
  expect(listed(back)).toBe(listed(out))
})
