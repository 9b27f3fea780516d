// Guarantee: a process ends in order, within its deadline, and with a true exit code.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempDisposableSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { expect, test } from 'vitest'
import { Lifetime } from './lifetime.ts'
import { createLog } from './log.ts'

const longMs = 60_000

function recordedLifetime() {
  const lines: Record<string, unknown>[] = []
  const log = createLog({ name: 'test', destination: { write: (line) => void lines.push(JSON.parse(line)) } })
  return { lifetime: new Lifetime(log), lines }
}

/** A real process that runs the given code as its start; collects what it logs and how it ends. */
function running(start: string, deadlineMs = longMs, env: Record<string, string> = {}) {
  const script = `
    import { ConfigError, runProcess, StartError } from '${import.meta.resolve('./index.ts')}'
    await runProcess({ name: 'test', deadlineMs: ${deadlineMs}, start: async (lifetime) => {
      const alive = setInterval(() => {}, ${longMs})
      lifetime.onClose('timer', () => clearInterval(alive))
      ${start}
      lifetime.log.info('serving')
    } })`
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const lines: Record<string, unknown>[] = []
  const waiting = new Map<string, () => void>()
  createInterface({ input: child.stdout }).on('line', (line) => {
    const said = JSON.parse(line)
    lines.push(said)
    waiting.get(said.msg)?.()
  })
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', (text) => {
    stderr += text
  })
  const said = (message: string) => new Promise<void>((resolve) => waiting.set(message, resolve))
  const ended = once(child, 'close').then(([code, signal]) => ({ code, signal, stderr, lines }))
  return { child, said, ended }
}

test('SIGHUP ends no process: it reads its files again', async () => {
  const { child, said, ended } = running(`
    const { reread } = await import('${import.meta.resolve('./index.ts')}')
    reread({ name: 'certificate', files: [], initial: 1, load: () => 2 })`)
  await said('serving')
  const again = said('files were read again')
  child.kill('SIGHUP')
  await again
  child.kill('SIGTERM')
  expect(await ended).toMatchObject({ code: 0, signal: null })
})

test('parts close in reverse order, one after another', async () => {
  const { lifetime } = recordedLifetime()
  const order: string[] = []
  for (const name of ['pool', 'leadership', 'server']) {
    lifetime.onClose(name, async () => {
      order.push(`${name} closing`)
      await Promise.resolve()
      order.push(`${name} closed`)
    })
  }
  expect(await lifetime.close(longMs)).toBe(true)
  expect(order).toEqual(['server', 'leadership', 'pool'].flatMap((name) => [`${name} closing`, `${name} closed`]))
})

test('a part that fails to close is logged, and the others still close', async () => {
  const { lifetime, lines } = recordedLifetime()
  let closed = false
  lifetime.onClose('pool', () => {
    closed = true
  })
  lifetime.onClose('server', () => Promise.reject(new Error('stuck')))
  expect(await lifetime.close(longMs)).toBe(false)
  expect(closed).toBe(true)
  expect(lines).toMatchObject([{ msg: 'a part failed to close', part: 'server' }])
})

test('a part that hangs past the deadline is logged, with those that were not closed', async () => {
  const { lifetime, lines } = recordedLifetime()
  lifetime.onClose('pool', () => {})
  lifetime.onClose('agents', () => {})
  lifetime.onClose('server', () => new Promise(() => {}))
  expect(await lifetime.close(10)).toBe(false)
  expect(lines).toMatchObject([{ msg: 'closing hung', hung: 'server', left: ['agents', 'pool'] }])
})

test.each(['SIGTERM', 'SIGINT'] as const)('%s closes the process cleanly', async (signal) => {
  const run = running('')
  await run.said('serving')
  run.child.kill(signal)
  expect(await run.ended).toMatchObject({ code: 0, lines: [{}, { msg: 'closing', reason: signal }, { msg: 'closed' }] })
})

test('a second signal exits at once', async () => {
  const run = running(
    `lifetime.onClose('stuck', () => { lifetime.log.info('closing the stuck'); return new Promise(() => {}) })`,
  )
  await run.said('serving')
  run.child.kill('SIGTERM')
  await run.said('closing the stuck')
  run.child.kill('SIGTERM')
  expect(await run.ended).toMatchObject({ code: 143 })
})

test('a process that cannot close in time logs what hung and exits with 1', async () => {
  const run = running(`lifetime.onClose('stuck', () => new Promise(() => {}))`, 20)
  await run.said('serving')
  run.child.kill('SIGTERM')
  const { code, lines } = await run.ended
  expect(code).toBe(1)
  expect(lines).toContainEqual(expect.objectContaining({ msg: 'closing hung', hung: 'stuck', left: ['timer'] }))
})

test('an interrupted start closes what it had started', async () => {
  const run = running(`
    lifetime.log.info('half way')
    await new Promise((resolve) => lifetime.closing.addEventListener('abort', resolve))
    lifetime.onClose('late', () => lifetime.log.info('late one closed'))`)
  await run.said('half way')
  run.child.kill('SIGTERM')
  const { code, lines } = await run.ended
  expect(code).toBe(0)
  expect(lines.map(({ msg }) => msg)).toContain('late one closed')
})

test('a failed start closes what it had started, exits with 1, and says why in its last line', async () => {
  const run = running(
    `lifetime.onClose('half', () => lifetime.log.info('half closed')); throw new Error('no database')`,
  )
  const { code, lines } = await run.ended
  expect(code).toBe(1)
  expect(lines.map(({ msg }) => msg)).toEqual(['half closed', 'could not start'])
  expect(lines.at(-1)).toMatchObject({ err: { message: 'no database', stack: expect.stringContaining('at ') } })
})

test.each([
  ['a sentence', `throw new StartError('port 80 is in use; set PORT')`, 'port 80 is in use; set PORT'],
  [
    'a file',
    `(await import('node:fs')).readFileSync('/no/such.pem')`,
    'cannot use /no/such.pem: there is no such file or folder; create it',
  ],
])(
  '%s that a start failed by is its last line, without a stack, at any level of the log',
  async (_what, start, why) => {
    const { code, lines } = await running(`lifetime.log.level = 'silent'; ${start}`).ended
    expect(code).toBe(1)
    expect(lines).toMatchObject([{ level: 60, msg: 'could not start', why }])
    expect(lines[0]).not.toHaveProperty('err')
  },
)

test('a wrong configuration is printed as text', async () => {
  const run = running(`throw new ConfigError(['PORT is "x": not a number'])`)
  expect(await run.ended).toMatchObject({
    code: 1,
    lines: [],
    stderr: 'the configuration is not valid:\n  - PORT is "x": not a number\n',
  })
})

test.each([
  ['unhandledRejection', `void Promise.reject(new Error('nobody cared'))`],
  ['uncaughtException', `setImmediate(() => { throw new Error('nobody cared') })`],
])('an uncaught error (%s) is logged with its stack and ends the process', async (kind, start) => {
  const { code, lines } = await running(start).ended
  expect(code).toBe(1)
  expect(lines).toContainEqual(
    expect.objectContaining({ kind, err: expect.objectContaining({ message: 'nobody cared' }) }),
  )
})

test('systemd is told when the process serves, that it is alive, and when it ends', async () => {
  using folder = mkdtempDisposableSync(join(tmpdir(), 'dormouse-notify-'))
  const socket = join(folder.path, 'notify')
  // Node has no datagram sockets.
  const receiver = spawn('perl', ['-MSocket', '-e', receive, socket])
  const lines = createInterface({ input: receiver.stdout })[Symbol.asyncIterator]()
  // systemd-notify also asks whether its message was read.
  const next = async (): Promise<string> => {
    const { value } = await lines.next()
    return value === 'BARRIER=1' ? next() : String(value)
  }
  expect(await next()).toBe('bound')
  const { child, ended } = running('lifetime.ready()', longMs, { NOTIFY_SOCKET: socket, WATCHDOG_USEC: '300000' })
  const told = [await next(), await next(), await next()]
  expect(told).toEqual(['READY=1', 'WATCHDOG=1', 'WATCHDOG=1'])
  child.kill('SIGTERM')
  await ended
  let last = await next()
  while (last === 'WATCHDOG=1') last = await next()
  expect(last).toBe('STOPPING=1')
  receiver.kill()
})

const receive = `
socket(S, AF_UNIX, SOCK_DGRAM, 0) && bind(S, sockaddr_un($ARGV[0])) || die $!;
$| = 1;
print "bound\\n";
while (defined recv(S, $m, 4096, 0)) { print "$m\\n" }`
