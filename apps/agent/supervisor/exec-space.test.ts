// Guarantee: the space of the execs in a guest is bounded, and what ended first makes way. The index of those that have ended
// only saves work: if it is wrong, of another boot or damaged, nothing that runs is removed, and nothing is counted twice.
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newId } from '@dormouse/contract'
import { afterAll, beforeEach, expect, test } from 'vitest'
import { waitFor } from '../../../test/wait-for.ts'
import { answerOf, type ExecReport, parseStatus } from '../src/scripts/supervisor.ts'
import { supervisorProgram } from '../src/scripts/supervisor-program.ts'

const MiB = 1024 * 1024
const folder = mkdtempSync(join(tmpdir(), 'dormouse-exec-space-'))
const program = join(folder, 'supervise')
writeFileSync(program, supervisorProgram)
chmodSync(program, 0o700)

let kept = ''
const clear = () => {
  for (const { id } of kept === '' ? [] : list()) run('remove', id, 5_000)
}
beforeEach(() => {
  clear()
  kept = join(folder, newId())
  mkdirSync(kept)
})
afterAll(() => {
  clear()
  rmSync(folder, { recursive: true })
})

const run = (operation: string, ...args: (string | number)[]) =>
  answerOf(execFileSync(program, [kept, operation, ...args.map(String)], { input: '' }))
const list = (...which: string[]) =>
  run('list', ...which)
    .slice(0, -1)
    .map(parseStatus)
const get = (id: string): ExecReport => parseStatus(run('get', id)[0]!)

function start(command: string): string {
  const id = newId()
  run('start', id, 0, 0, 0, 0, '', 0, 0, 'sh', '-c', command)
  return id
}

/** An exec that ended so long ago and keeps this much output. */
async function ended(bytes: number, agoSecs = 60): Promise<string> {
  const id = start('true')
  await waitFor('the end', () => get(id).state === 'exited')
  const head = join(kept, id, 'head')
  const page = readFileSync(head)
  page.writeBigUInt64LE(page.readBigUInt64LE(56) - BigInt(agoSecs), 56)
  writeFileSync(head, page)
  truncateSync(join(kept, id, 'out'), bytes)
  return id
}

test('what ended first makes way, and what the index knows of it counts', async () => {
  const first = await ended(200 * MiB, 120)
  const second = start('true')
  await waitFor('the end', () => get(second).state === 'exited')
  truncateSync(join(kept, second, 'out'), 100 * MiB)
  const third = start('true')
  expect([first, second, third].map((id) => existsSync(join(kept, id)))).toEqual([false, true, true])
})

test('one that runs stays, whatever the index knows of an earlier one with its id', async () => {
  const first = await ended(200 * MiB, 120)
  const running = start('sleep 1000')
  // As a release without an index starts an id again that was removed.
  rmSync(join(kept, first), { recursive: true })
  renameSync(join(kept, running), join(kept, first))
  const second = await ended(100 * MiB)
  start('true')
  expect(get(first).state).toBe('running')
  expect(get(second).state).toBe('exited')
})

test.each([
  ['of another boot', () => Buffer.alloc(MiB, 'x')],
  ['damaged', () => Buffer.from(readFileSync(join(kept, 'index')).fill('x', 40))],
])('an index that is %s is made again', async (_, bytes) => {
  const first = await ended(200 * MiB, 120)
  start('true')
  writeFileSync(join(kept, 'index'), bytes())
  for (let i = 0; i < 3; i++) start('true')
  expect(list()).toHaveLength(5)
  const second = await ended(100 * MiB)
  start('true')
  expect([first, second].map((id) => existsSync(join(kept, id)))).toEqual([false, true])
})

test('those that run are listed alone', async () => {
  await ended(0)
  const running = start('sleep 1000')
  for (let i = 0; i < 2; i++) expect(list('running').map(({ id }) => id)).toEqual([running])
  expect(list()).toHaveLength(2)
})
