// Guarantee: a supervisor that waits gives the answers of the commands, also to many at once; whatever is lost or wrong, the request
// can be run as a command. The real program runs here, on this machine, as in a guest.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newId } from '@dormouse/contract'
import { afterAll, afterEach, expect, test } from 'vitest'
import { waitFor } from '../../../../test/wait-for.ts'
import type { ConversationListener, GuestTransport } from '../driver/guest-transport.ts'
import { answerOf, execsIn, operation, printedOutput, programIn, servedOutput } from '../scripts/supervisor.ts'
import { supervisorProgram } from '../scripts/supervisor-program.ts'
import { ServedExecs } from './execs.ts'

const place = mkdtempSync(join(tmpdir(), 'dormouse-served-'))
writeFileSync(programIn(place), supervisorProgram)
chmodSync(programIn(place), 0o700)
mkdirSync(execsIn(place))
const started: string[] = []
const processes: ChildProcess[] = []
afterEach(() => {
  for (const process of processes.splice(0)) process.kill('SIGKILL')
})
afterAll(() => {
  for (const id of started) command(['remove', id, 5_000])
  rmSync(place, { recursive: true })
})

const target = { desktopId: newId(), generation: 1 }
const timeoutSecs = 30
const [noFlags, hasInput] = [0, 2]

function command(args: (string | number)[], input = ''): string {
  const [file, ...words] = operation(place, execsIn(place), args)
  return execFileSync(file!, words, { input, encoding: 'utf8', maxBuffer: 2 ** 21 })
}

function start(script: string, flags = noFlags): string {
  const id = newId()
  started.push(id)
  command(['start', id, flags, 0, 0, 0, 'sh', '-c', script])
  return id
}

/** Runs scripts on this machine. */
const guestThatRuns = (script: (asked: string) => string): GuestTransport =>
  ({
    converse: async (asked: string, { received, ended }: ConversationListener) => {
      const child = spawn('sh', ['-c', script(asked)], { stdio: ['pipe', 'pipe', 'inherit'] })
      processes.push(child)
      child.stdin.on('error', () => undefined)
      child.stdout.on('data', received)
      child.once('exit', ended)
      return { send: (bytes: Buffer) => child.stdin.write(bytes), close: () => child.stdin.end() }
    },
  }) as unknown as GuestTransport
const guest = guestThatRuns((asked) => asked)

const said = async (served: ServedExecs, request: Parameters<ServedExecs['ask']>[1]) =>
  (await served.ask(target, request))?.toString()

async function ready(served: ServedExecs, of = guest): Promise<void> {
  served.begin(of, target, place)
  await waitFor('the supervisor to serve', () => served.ask(target, { args: ['get', '-'], timeoutSecs }))
}

test('answers are those of the commands, in pieces of any size', async () => {
  const served = new ServedExecs()
  const id = start('yes 0123456789abcde | head -c 800000')
  await waitFor('the end', () => command(['get', id]).includes('exited'))
  await ready(served)
  for (const args of [
    ['get', id],
    ['get', newId()],
  ])
    expect(await said(served, { args, timeoutSecs })).toBe(command(args))
  for (const [offset, most] of [
    [0, 737_280],
    [800_000, 10],
  ]) {
    const args = ['read', id, 'out', offset!, most!, 0]
    expect(servedOutput((await served.ask(target, { args, timeoutSecs }))!)).toEqual(
      printedOutput(answerOf(command(args))),
    )
  }
})

test('one that waits holds up no other, and hears of what another writes', async () => {
  const served = new ServedExecs()
  const id = start('read line; echo "$line"', hasInput)
  await ready(served)
  const waits = said(served, { args: ['read', id, 'out', 0, 100, 10_000], timeoutSecs })
  const many = Array.from({ length: 40 }, () => said(served, { args: ['get', id], timeoutSecs }))
  for (const answer of await Promise.all(many)) expect(answer).toContain('running')
  const input = Buffer.from('a line\n').toString('base64')
  expect(await said(served, { args: ['write', id, 0, 1, 1_000], input, timeoutSecs })).toBe('end 7\n')
  expect(await waits).toMatch(/data 0 7\na line\n$/)
})

test('only what may be repeated is served', async () => {
  const served = new ServedExecs()
  const id = start('sleep 60')
  await ready(served)
  for (const args of [['remove', id, 0], ['signal', id, 9], ['list'], ['start', newId(), 0, 0, 0, 0, 'true']])
    expect(await said(served, { args, timeoutSecs })).toBe('no usage\n')
  expect(command(['get', id])).toContain('running')
})

test('where it is lost or answers what is no answer, the request is left to a command; another one can be started', async () => {
  const served = new ServedExecs()
  const id = start('sleep 60')
  await ready(served)
  const waits = served.ask(target, { args: ['read', id, 'out', 0, 100, 20_000], timeoutSecs })
  const [server] = processes
  server!.kill('SIGKILL')
  expect(await waits).toBeUndefined()
  await ready(served)
  expect(await served.ask({ ...target, generation: 2 }, { args: ['get', id], timeoutSecs })).toBeUndefined()
  for (const answer of ['1 3\nno 1 0\n2 5\nhello', '7 0\n', '1 99999\n', 'x'.repeat(100)]) {
    const strange = new ServedExecs()
    strange.begin(
      guestThatRuns(() => `printf '${answer}'; cat`),
      target,
      place,
    )
    const process = processes.at(-1)!
    await once(process, 'exit')
    expect(await strange.ask(target, { args: ['get', id], timeoutSecs })).toBeUndefined()
  }
})

test('it ends with its connection', async () => {
  const served = new ServedExecs()
  await ready(served)
  const [process] = processes
  served.begin(guest, { ...target, generation: 2 }, place)
  await once(process!, 'close')
})
