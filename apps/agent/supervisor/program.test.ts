// Guarantee: on the wake port, our program does a whole and valid message, or nothing of it; on the SSH port it begins SSH only after
// the latest question. Whatever else comes, it goes on.
import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { tellGuest } from '../src/guest/wake-port.ts'
import { supervisorProgram } from '../src/scripts/supervisor-program.ts'

let folder: string
let program: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'dormouse-program-'))
  program = join(folder, 'program')
  writeFileSync(program, supervisorProgram, { mode: 0o755 })
})
afterAll(() => rmSync(folder, { recursive: true }))

/** In place of the port, one end of a socket. It cannot set this machine's clock. */
function start(which: 'wake' | 'ssh' = 'wake'): { port: Duplex; child: ChildProcess } & AsyncDisposable {
  const words = process.getuid?.() === 0 ? 'setpriv --bounding-set -sys_time "$0" port "$1" -' : '"$0" port "$1" -'
  const child = spawn('/bin/sh', ['-c', `exec ${words} <&3`, program, which], {
    stdio: ['ignore', 'ignore', 'inherit', 'pipe'],
  })
  const port = child.stdio[3] as Duplex
  port.on('error', () => undefined)
  const ended = once(child, 'exit')
  const dispose = async () => {
    port.destroy()
    await ended
  }
  return { port, child, [Symbol.asyncDispose]: dispose }
}

/** Sends lines, and reads the program's. */
function host(port: Duplex) {
  let [text, waiting]: [string, (() => void) | undefined] = ['', undefined]
  port.on('data', (bytes: Buffer) => {
    text += bytes.toString()
    waiting?.()
  })
  const line = async () => {
    while (!text.includes('\n')) {
      await new Promise<void>((resolve) => {
        waiting = resolve
      })
    }
    const [first = ''] = text.split('\n', 1)
    text = text.slice(first.length + 1)
    return first
  }
  const send = (...lines: string[]) => port.write(`${lines.join('\n')}\n`)
  const ask = (...lines: string[]) => {
    send('BEGIN n1', ...lines, 'END')
    return line()
  }
  return { line, send, ask }
}

const base64 = (text: string | Buffer) => Buffer.from(text).toString('base64')
const at = (name: string) => join(folder, name)

test('it greets, and again when it is asked; files are replaced whole, with their mode, and removed', async () => {
  await using guest = start()
  const { line, send, ask } = host(guest.port)
  expect(await line()).toBe('HELLO')
  send('', 'HELLO')
  expect(await line()).toBe('HELLO')
  writeFileSync(at('old'), 'old', { mode: 0o644 })
  writeFileSync(at('unwanted'), 'x')
  const large = randomBytes(64 * 1024)
  const message = [
    ...[`FILE 600 ${at('old')} ${base64('new')}`, `FILE 0755 ${at('large')} ${base64(large)}`],
    ...[`FILE 644 ${at('empty')} `, `GONE ${at('unwanted')}`, `GONE ${at('never')}`],
  ]
  for (const _ of [1, 2]) expect(await ask(...message)).toBe('OK n1')
  expect(readFileSync(at('old'), 'utf8')).toBe('new')
  expect(statSync(at('old')).mode & 0o7777).toBe(0o600)
  expect(statSync(at('large')).mode & 0o7777).toBe(0o755)
  expect(readFileSync(at('large')).equals(large)).toBe(true)
  expect(readFileSync(at('empty'), 'utf8')).toBe('')
  expect(existsSync(at('unwanted'))).toBe(false)
  for (const name of ['old', 'large', 'empty']) rmSync(at(name))
  expect(readdirSync(folder)).toEqual(['program'])
})

test.each([
  ['FILE 644 relative eA==', 'file'],
  ['FILE 999 /tmp/x eA==', 'file'],
  ['FILE 77777 /tmp/x eA==', 'file'],
  ['FILE 644 /tmp/x e?==', 'file'],
  ['FILE 644 /tmp/x eA=', 'file'],
  ['FILE 644 /tmp/x', 'file'],
  [`FILE 644 /${'x'.repeat(255)} eA==`, 'file'],
  [`FILE 644 /tmp/x ${base64(Buffer.alloc(64 * 1024 + 1))}`, 'file'],
  ['GONE /tmp/', 'file'],
  ['NAME ', 'host name'],
  ['NAME a.b', 'host name'],
  [`NAME ${'a'.repeat(64)}`, 'host name'],
  ['SEED 00', 'seed'],
  [`SEED ${'0'.repeat(63)}`, 'seed'],
  [`SEED ${'zz'.repeat(32)}`, 'seed'],
  [`SEED ${'00'.repeat(257)}`, 'seed'],
  ['CLOCK', 'line'],
  ['CLOCK soon', 'clock'],
  ['CLOCK 99999999999999999999', 'clock'],
  ['CLOCK 9999999999999999999', 'clock'],
  ['RUN /bin/sh', 'line'],
  ['', 'line'],
])('%s is refused, and nothing before it is done', async (wrong, what) => {
  await using guest = start()
  const { line, ask } = host(guest.port)
  await line()
  expect(await ask(`FILE 644 ${at('first')} eA==`, wrong)).toBe(`NO n1 the ${what} is not valid`)
  expect(existsSync(at('first'))).toBe(false)
  expect(await ask(`GONE ${at('first')}`)).toBe('OK n1')
})

test('what the kernel refuses is named', async () => {
  await using guest = start()
  const { line, ask } = host(guest.port)
  await line()
  expect(await ask(`FILE 644 ${at('no/such/folder')} eA==`)).toBe('NO n1 the file could not be set (error 2)')
  expect(await ask(`GONE ${folder}`)).toBe('NO n1 the file could not be set (error 21)')
  expect(await ask(`CLOCK ${BigInt(Date.now()) * 1_000_000n}`)).toBe('NO n1 the clock could not be set (error 1)')
})

test('more than sixteen files, and more than a message may have, are refused; the next message is done', async () => {
  await using guest = start()
  const { line, send, ask } = host(guest.port)
  await line()
  const many = Array.from({ length: 17 }, (_, i) => `GONE ${at(`${i}`)}`)
  expect(await ask(...many)).toBe('NO n1 the line is not valid')
  expect(await ask(...many.slice(1))).toBe('OK n1')
  const flood = guest.port.write(`BEGIN n2\nSEED ${'0'.repeat(900_000)}\nEND\n`)
  expect(await line()).toBe('NO n2 the message is not valid')
  if (!flood) await once(guest.port, 'drain')
  send('x'.repeat(600_000))
  expect(await ask(`GONE ${at('x')}`)).toBe('OK n1')
})

test('a message begins anew wherever the one before was cut, and one without a beginning is nothing', async () => {
  await using guest = start()
  const { line, send, ask } = host(guest.port)
  await line()
  send(`FILE 644 ${at('a')} eA==`, 'END', 'BEGIN n_2', `FILE 644 ${at('a')} eA==`, 'END')
  guest.port.write(`BEGIN n0\nFILE 644 ${at('b')} eA==\nFILE 644 ${at('c')} eA`)
  send('', 'HELLO')
  expect(await line()).toBe('HELLO')
  expect(await ask(`FILE 644 ${at('d')} ${base64('d')}`)).toBe('OK n1')
  expect(['a', 'b', 'c', 'd'].map((name) => existsSync(at(name)))).toEqual([false, false, false, true])
  // A question in the middle of a message changes nothing about it.
  send('BEGIN n3', `FILE 644 ${at('d')} ${base64('e')}`, 'HELLO', `FILE 644 ${at('e')} ${base64('f')}`, 'END')
  expect([await line(), await line()]).toEqual(['HELLO', 'OK n3'])
  expect([readFileSync(at('d'), 'utf8'), readFileSync(at('e'), 'utf8')]).toEqual(['e', 'f'])
  for (const name of ['d', 'e']) rmSync(at(name))
})

test('a message whose host has gone is dropped', async () => {
  const guest = start()
  const { line, send } = host(guest.port)
  await line()
  guest.child.kill('SIGSTOP')
  send('BEGIN n1', `FILE 644 ${at('late')} eA==`, 'END')
  guest.port.destroy()
  await once(guest.port, 'close')
  guest.child.kill('SIGCONT')
  await once(guest.child, 'exit')
  expect(existsSync(at('late'))).toBe(false)
})

test('random bytes in random pieces never end it', async () => {
  await using guest = start()
  const { line, send, ask } = host(guest.port)
  await line()
  const words = [
    'BEGIN n1',
    'END',
    'SEED 0',
    'FILE 644 /',
    'GONE',
    'CLOCK -1',
    'NAME ',
    '\0',
    '\n',
    'BEGIN \n',
    'END\n',
  ]
  for (let n = 0; n < 300; n++) {
    const word = words[n % words.length]!
    send(word.slice(0, n % 7 ? undefined : 3), randomBytes(n % 50).toString('latin1'))
  }
  send('', 'BEGIN last', `GONE ${at('x')}`, 'END')
  let answer: string
  do answer = await line()
  while (!answer.endsWith(' last'))
  expect(answer).toBe('OK last')
  expect(await ask()).toBe('OK n1')
})

test('the host’s end and this one understand each other', async () => {
  const socketPath = at('socket')
  const server = createServer((connection) => {
    const guest = start()
    connection.pipe(guest.port).pipe(connection)
    connection.on('error', () => undefined).once('close', () => void guest[Symbol.asyncDispose]())
  })
  await once(server.listen(socketPath), 'listening')
  try {
    const files = [{ path: at('told'), mode: 0o600, bytes: Buffer.from('key') }, { path: at('gone') }]
    writeFileSync(at('gone'), '')
    const telling = tellGuest(socketPath, { files })
    // The clock comes last, and this one may not set it; as a user, it may not even reseed.
    const isRoot = process.getuid?.() === 0
    const last = `the guest was not told: the ${isRoot ? 'clock' : 'seed'} could not be set (error 1)`
    await expect(telling).rejects.toThrow(last)
    if (isRoot) expect([readFileSync(at('told'), 'utf8'), existsSync(at('gone'))]).toEqual(['key', false])
  } finally {
    server.close()
  }
})

test('on the SSH port it greets and returns the latest nonce, whatever came before; another one begins nothing', async () => {
  await using guest = start('ssh')
  const { line, send } = host(guest.port)
  expect([await line(), await line()]).toEqual(['', 'HELLO'])
  send('x'.repeat(40_959), '', 'RST one', 'rest of a packet\0', 'RST two', 'GO one', 'GO', `RST ${'9'.repeat(100)}`)
  expect([await line(), await line(), await line()]).toEqual(['RDY one', 'RDY two', `RDY ${'9'.repeat(63)}`])
  expect(guest.child.exitCode).toBe(null)
  guest.port.end()
  await once(guest.child, 'exit')
})
