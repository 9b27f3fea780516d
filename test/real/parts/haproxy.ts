// The HAProxy of `infra/haproxy`, as a process: its configuration as it is, with a test's addresses in it.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { endWithUs } from '../../../scripts/testbed/end-with-us.ts'
import { identify, run } from '../../../scripts/testbed/processes.ts'
import { waitFor } from '../../wait-for.ts'
import type { Identity } from './authority.ts'

const shipped = fileURLToPath(new URL('../../../infra/haproxy/haproxy.cfg', import.meta.url))

export interface HaproxyOptions {
  port: number
  plainPort: number
  /** Addresses of the two replicas, and the names by which agents reach each. */
  replicas: [{ address: string; name: string }, { address: string; name: string }]
  identity: Identity
}

/** Starts it, and returns when it accepts connections. */
export async function startHaproxy(options: HaproxyOptions): Promise<AsyncDisposable> {
  const { port, plainPort, replicas, identity } = options
  const folder = mkdtempSync(join(tmpdir(), 'dormouse-haproxy-'))
  const pem = join(folder, 'dormouse.pem')
  writeFileSync(pem, identity.certificate + identity.key, { mode: 0o600 })
  const [first, second] = replicas
  const settings = replaceEach(readFileSync(shipped, 'utf8'), {
    '/etc/haproxy/dormouse.pem': pem,
    '/dev/log': 'stderr',
    'bind :80': `bind :${plainPort}`,
    'bind :::80': `bind :::${plainPort}`,
    'bind :443': `bind :${port}`,
    'bind :::443': `bind :::${port}`,
    '10.0.0.11:8080': first.address,
    '10.0.0.12:8080': second.address,
    'cp-1.dormouse.example }': `${first.name} }`,
    'cp-2.dormouse.example }': `${second.name} }`,
  })
  const file = join(folder, 'haproxy.cfg')
  writeFileSync(file, settings)
  await run('haproxy', ['-c', '-f', file])
  // As few files as a container may allow.
  const child = spawn('sh', ['-c', 'ulimit -n 1024 && exec haproxy -db -f "$0"', file], {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let log = ''
  child.stderr.on('data', (chunk) => {
    log += chunk
  })
  endWithUs(identify(child.pid!)!, 'SIGKILL', folder)
  const exited = once(child, 'exit')
  await waitFor('HAProxy', () => {
    if (child.exitCode !== null) throw new Error(`HAProxy ended:\n${log}`)
    return fetch(`http://127.0.0.1:${plainPort}/`, { redirect: 'manual' }).then(
      ({ status }) => status === 308,
      () => false,
    )
  })
  return {
    [Symbol.asyncDispose]: async () => {
      child.kill('SIGKILL')
      await exited
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** Throws if the shipped configuration has not what is to be replaced. */
function replaceEach(text: string, changes: Record<string, string>): string {
  for (const [from, to] of Object.entries(changes)) {
    if (!text.includes(from)) throw new Error(`infra/haproxy/haproxy.cfg has no "${from}"`)
    text = text.replaceAll(from, to)
  }
  return text
}
