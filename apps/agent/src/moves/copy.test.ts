// Guarantee: files arrive at the other host exactly as they are, and a copy that was cut sends only what is not there yet. A
// host that sends or answers wrongly stores nothing that counts.
import { randomBytes } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Duplex, duplexPair } from 'node:stream'
import { BytePace, createLog } from '@dormouse/process'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { MoveTransfer } from '../transfer/transfer.ts'
import { receiveFiles } from './copy-in.ts'
import { sendFiles } from './copy-out.ts'
import { frameHeader, frameType } from './frames.ts'
import { digestBytes } from './pieces.ts'

const mib = 1024 * 1024
let folder: string
let here: MoveTransfer
let there: MoveTransfer
let near: Duplex
let far: Duplex

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'dormouse-copy-'))
  const log = createLog({ name: 'copy', level: 'silent' })
  const transfer = () => new MoveTransfer({ moveId: 'move', pace: new BytePace(undefined), log })
  here = transfer()
  there = transfer()
  ;[near, far] = duplexPair()
  here.keep(near)
  there.keep(far)
})
afterEach(() => {
  here.end()
  there.end()
  rmSync(folder, { recursive: true, force: true })
})

const at = (name: string) => join(folder, name)

function write(name: string, bytes: Buffer) {
  writeFileSync(at(name), bytes)
  return { name, path: at(name), bytes: bytes.length }
}

/** Three and a half pieces: random, zeros, random, and a short one. */
const content = () => Buffer.concat([randomBytes(mib), Buffer.alloc(mib), randomBytes(mib), randomBytes(mib / 2)])

async function copy(files: ReturnType<typeof write>[]) {
  const targets = Object.fromEntries(files.map(({ name, bytes }) => [name, { path: at(`${name}-new`), bytes }]))
  const received = receiveFiles(there, far, targets)
  const [sent, stored] = await Promise.all([sendFiles(here, near, files, () => undefined), received])
  expect(stored).toEqual(sent)
}

test('files arrive as they are; what is zero neither travels nor takes space', async () => {
  const files = [write('disk', content()), write('memory', randomBytes(300_000)), write('small', Buffer.from('x'))]
  await copy(files)
  for (const { name, path } of files) expect(readFileSync(at(`${name}-new`)).equals(readFileSync(path))).toBe(true)
  const total = files.reduce((sum, { bytes }) => sum + bytes, 0)
  expect(here.bytes).toBeLessThan(total - mib + 10_000)
  expect(statSync(at('disk-new')).blocks * 512).toBeLessThan(3 * mib)
})

test('what is there already does not travel again, and what is wrong there is replaced', async () => {
  const bytes = content()
  const file = write('disk', bytes)
  // What an earlier try has left: the first piece, a spoiled one in place of zeros, and no end.
  writeFileSync(at('disk-new'), Buffer.concat([bytes.subarray(0, mib), randomBytes(mib)]))
  await copy([file])
  expect(readFileSync(at('disk-new')).equals(bytes)).toBe(true)
  expect(here.bytes).toBeLessThan(2.5 * mib + 10_000)
})

test('a copy that is cut ends on both sides', async () => {
  const file = write('disk', content())
  const receiving = receiveFiles(there, far, { disk: { path: at('disk-new'), bytes: file.bytes } }).catch((e) => e)
  far.once('data', () => there.end(new Error('cut')))
  const sending = sendFiles(here, near, [file], () => undefined).catch((e) => e)
  expect(await receiving).toMatchObject({ message: 'cut' })
  here.end(new Error('cut, too'))
  expect(await sending).toBeInstanceOf(Error)
})

test('a full disk of the other host ends the copy with that reason', async () => {
  const file = write('disk', randomBytes(8 * mib))
  const sending = sendFiles(here, near, [file], () => undefined)
  far.once('data', () => {
    const none = Buffer.alloc(8 * digestBytes)
    far.write(Buffer.concat([frame('have', none), frame('haveEnd', Buffer.alloc(0)), frame('full', Buffer.alloc(0))]))
  })
  await expect(sending).rejects.toMatchObject({ code: 'host_disk_full' })
})

test('digests for more than the file are refused', async () => {
  const file = write('disk', randomBytes(mib))
  const sending = sendFiles(here, near, [file], () => undefined)
  far.once('data', () => far.write(frame('have', Buffer.alloc(2 * digestBytes))))
  await expect(sending).rejects.toThrow(/wrong digests/)
})

const json = (value: unknown) => Buffer.from(JSON.stringify(value))
const frame = (type: keyof typeof frameType, payload: Buffer) =>
  Buffer.concat([frameHeader(frameType[type], payload.length), payload])
const index = (value: number) => {
  const bytes = Buffer.alloc(4)
  bytes.writeUInt32BE(value)
  return bytes
}
const good = frame('file', json({ name: 'disk', bytes: mib }))

describe('a sender is refused that sends', () => {
  test.each<[what: string, bytes: Buffer]>([
    ['a file that is not expected', frame('file', json({ name: '__proto__', bytes: mib }))],
    ['a file of another length', frame('file', json({ name: 'disk', bytes: mib + 1 }))],
    ['no JSON', frame('file', Buffer.from('{'))],
    ['a frame that is too long', Buffer.from('04ffffffff', 'hex')],
    ['an unknown frame', Buffer.concat([good, Buffer.from('6300000000', 'hex')])],
    ['a piece behind the end', Buffer.concat([good, frame('piece', Buffer.concat([index(1), Buffer.alloc(mib)]))])],
    ['a piece that is too short', Buffer.concat([good, frame('piece', Buffer.concat([index(0), Buffer.alloc(3)]))])],
    ['a piece without a number', Buffer.concat([good, frame('piece', Buffer.alloc(2))])],
    ['another digest', Buffer.concat([good, frame('done', Buffer.from('0'.repeat(64)))])],
    ['nothing more', good],
  ])('%s', async (_what, bytes) => {
    const receiving = receiveFiles(there, far, { disk: { path: at('disk-new'), bytes: mib } })
    near.resume()
    near.end(bytes)
    await expect(receiving).rejects.toBeInstanceOf(Error)
  })
})
