// Guarantee: certificates and authorities are read again without a restart, and a bad file keeps what was read before.
import { once } from 'node:events'
import { mkdtempDisposableSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { request } from 'node:https'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import tls from 'node:tls'
import { openSession } from '@dormouse/control-plane/db/pool.ts'
import { createLog, lookAgain, watchMachineTrust } from '@dormouse/process'
import { processMetrics } from '@dormouse/process/metrics'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Authority, type Identity } from '../real/parts/authority.ts'

let [older, newer]: Authority[] = []
let identity: Identity
const lines: { msg: string; why?: string }[] = []
const log = createLog({ name: 'test', destination: { write: (line: string) => void lines.push(JSON.parse(line)) } })

beforeAll(async () => {
  older = await Authority.create()
  newer = await Authority.create()
  identity = await newer.issue('IP:127.0.0.1')
})
afterAll(() => {
  older?.[Symbol.dispose]()
  newer?.[Symbol.dispose]()
})

/** Replaced as a tool of certificates does it: under its name there is always a whole file. */
function replace(file: string, contents: string): void {
  writeFileSync(`${file}.new`, contents)
  renameSync(`${file}.new`, file)
}

const outdated = async (what: string) =>
  (await processMetrics().metrics()).match(new RegExp(`^dormouse_files_outdated\\{what="${what}"\\} (\\d)`, 'm'))?.[1]

test('an authority that the machine trusts later is trusted without a restart', async () => {
  using folder = mkdtempDisposableSync(join(tmpdir(), 'dormouse-reread-'))
  const file = join(folder.path, 'ca-certificates.crt')
  const ours = tls.getCACertificates('default')
  const server = tls.createServer({ cert: identity.certificate, key: identity.key }, (socket) => {
    socket.on('error', () => undefined).end('HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n')
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const answer = async () => {
    const { port } = server.address() as { port: number }
    const asked = request({ host: '127.0.0.1', port, agent: false }).end()
    return once(asked, 'response').then(
      ([{ statusCode }]) => statusCode,
      ({ code }) => code,
    )
  }
  try {
    replace(file, older!.certificate)
    watchMachineTrust({ SSL_CERT_FILE: file })
    expect(await answer()).toMatch(/SELF_SIGNED|UNABLE_TO_/)
    replace(file, older!.certificate + newer!.certificate)
    lookAgain(log)
    expect(await answer()).toBe(204)
    replace(file, `${newer!.certificate.slice(0, 200)}\n`)
    lookAgain(log)
    expect([await answer(), await outdated('authorities')]).toEqual([204, '1'])
    expect(lines.at(-1)?.why).toContain(`${file} has no certificate`)
  } finally {
    tls.setDefaultCACertificates(ours)
    server.close()
  }
})

/** Answers the request for TLS as Postgres does, and ends the connection once it is encrypted. */
async function postgresWithTls() {
  const server = createServer((socket) => {
    socket.on('error', () => undefined)
    socket.once('data', () => {
      socket.write('S')
      const context = tls.createSecureContext({ cert: identity.certificate, key: identity.key })
      new tls.TLSSocket(socket, { isServer: true, secureContext: context })
        .on('error', () => undefined)
        .on('data', function (this: tls.TLSSocket) {
          this.end()
        })
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return server
}

test('the authority of the database is replaced without a restart, and a bad file keeps the one before', async () => {
  using folder = mkdtempDisposableSync(join(tmpdir(), 'dormouse-reread-'))
  const file = join(folder.path, 'postgres-ca.pem')
  replace(file, older!.certificate)
  const server = await postgresWithTls()
  const { port } = server.address() as { port: number }
  const url = `postgres://user:word@127.0.0.1:${port}/none?sslmode=verify-full&sslrootcert=${file}`
  const connect = () => openSession(url, 'leadership').catch(({ code, message }) => code ?? message)
  expect(await connect()).toMatch(/SELF_SIGNED|UNABLE_TO_/)
  replace(file, newer!.certificate)
  lookAgain(log)
  expect(await connect()).toBe('Connection terminated unexpectedly')
  for (const bad of ['nothing', readFileSync(file, 'utf8').slice(0, 300)]) {
    replace(file, bad)
    lookAgain(log)
    expect([bad, await connect(), await outdated('database_tls')]).toEqual([
      bad,
      'Connection terminated unexpectedly',
      '1',
    ])
  }
  replace(file, newer!.certificate)
  lookAgain(log)
  expect([await connect(), await outdated('database_tls')]).toEqual(['Connection terminated unexpectedly', '0'])
  server.close()
})
