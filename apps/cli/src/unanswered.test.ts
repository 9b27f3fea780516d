// Guarantee: whatever keeps a request from its response, the command line prints what it is and what helps.
import { writeFileSync } from 'node:fs'
import { createServer as createPlainServer } from 'node:http'
import { createServer } from 'node:https'
import { type AddressInfo, createServer as createTcpServer, type Server } from 'node:net'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { door, folder, pinnedNode, run, start } from './testing/process.ts'

const pem = (what: string, body: string) =>
  `-----BEGIN ${what}-----\n${body.replaceAll(/.{64}/g, '$&\n')}\n-----END ${what}-----\n`

// For `localhost` alone, signed by itself, made for these tests: from 2020 to 2120, and a day in 2020.
const key = pem(
  'PRIVATE KEY',
  'MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg2kpSbOjTEWy9HQn8TwNKGJCgJx15qKRNqMYGO3M6qAahRANCAAQwDr+fsViN7Sf8jMf4CAEOb7TzBpuQmDr6IFWVLh7PZO/QeebMnPD2x37AbLVB4EyEdZa/JIdvQcTkwln8bnpL',
)
const good = pem(
  'CERTIFICATE',
  'MIIBYTCCAQegAwIBAgIBAjAKBggqhkjOPQQDAjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwIBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAxMDIwMDAwMDBaMBQxEjAQBgNVBAMMCWxvY2FsaG9zdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABDAOv5+xWI3tJ/yMx/gIAQ5vtPMGm5CYOvogVZUuHs9k79B55syc8PbHfsBstUHgTIR1lr8kh29BxOTCWfxuekujSDBGMBQGA1UdEQQNMAuCCWxvY2FsaG9zdDAPBgNVHRMBAf8EBTADAQH/MB0GA1UdDgQWBBT4Lshfh0pATEPGh5Yvd2Odan5zqDAKBggqhkjOPQQDAgNIADBFAiEA98Mq3Zg8mYSs++CvEfM1K2HccN4Cw1oCEZcDSw11L/wCIBandzIv7V1vE1ZE/wW++dzQjn4g7eX5fgmb4PlliBip',
)
const old = pem(
  'CERTIFICATE',
  'MIIBXzCCAQWgAwIBAgIBATAKBggqhkjOPQQDAjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwHhcNMjAwMTAxMDAwMDAwWhcNMjAwMTAyMDAwMDAwWjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAQwDr+fsViN7Sf8jMf4CAEOb7TzBpuQmDr6IFWVLh7PZO/QeebMnPD2x37AbLVB4EyEdZa/JIdvQcTkwln8bnpLo0gwRjAUBgNVHREEDTALgglsb2NhbGhvc3QwDwYDVR0TAQH/BAUwAwEB/zAdBgNVHQ4EFgQU+C7IX4dKQExDxoeWL3djnWp+c6gwCgYIKoZIzj0EAwIDSAAwRQIhANXwoKY/jUawFDyHsAJzUCldi3xkHX8ytBE2gWLvWfa0AiAdg5L0BhYP+2hSNc9/DTu6zQ3hv+DIEi75HUB5evPnkw==',
)

/** What the command line prints about a service there. Certificates that a machine trusts are read when a process starts. */
async function said(url: string, trusted?: string): Promise<string> {
  const env = { DORMOUSE_URL: url, DORMOUSE_API_KEY: 'svc_sk_secret' }
  const { code, stdout, stderr } = trusted === undefined ? await here(env) : await elsewhere(env, trusted)
  expect([code, stdout]).toEqual([6, ''])
  return stderr
}

async function here(env: Record<string, string>) {
  const { dormouse } = await start(() => ({ body: {} }))
  return dormouse(['usage'], { env })
}

function elsewhere(env: Record<string, string>, trusted: string, by = 'NODE_EXTRA_CA_CERTS') {
  const file = join(folder(), 'ca.pem')
  writeFileSync(file, trusted)
  return run(pinnedNode, [door, 'list'], { env: { ...env, [by]: file } })
}

async function listening(server: Server): Promise<number> {
  onTestFinished(() => void server.close())
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as AddressInfo).port
}

const tls = (cert: string) => listening(createServer({ key, cert }, (_, response) => response.end('{"desktops":[]}')))

test('a certificate of an unknown CA', async () => {
  const text = await said(`https://localhost:${await tls(good)}`)
  expect(text).toMatch(/does not trust its certificate.*NODE_EXTRA_CA_CERTS/)
  expect(text).toMatch(/Next step: NODE_EXTRA_CA_CERTS=/)
  expect(text).not.toContain('service runs')
})

test('a certificate of a CA that the machine trusts', async () => {
  const env = { DORMOUSE_URL: `https://localhost:${await tls(good)}`, DORMOUSE_API_KEY: 'svc_sk_secret' }
  for (const by of ['NODE_EXTRA_CA_CERTS', 'SSL_CERT_FILE'])
    expect(await elsewhere(env, good, by)).toMatchObject({
      code: 0,
      stderr: expect.stringContaining('No desktops yet'),
    })
})

test('a certificate that has expired', async () => {
  expect(await said(`https://localhost:${await tls(old)}`, old)).toMatch(/not valid at this time.*\nNext step: .*renew/)
})

test('a certificate for another name', async () => {
  const text = await said(`https://127.0.0.1:${await tls(good)}`, good)
  expect(text).toMatch(/certificate is for another name.*\nNext step: set DORMOUSE_URL to a name/)
})

test('a port that fetch does not take', async () => {
  expect(await said('http://127.0.0.1:6000')).toMatch(/never connects to port 6000.*\nNext step: set DORMOUSE_URL/)
})

test('TLS to a plain port, and plain HTTP to the port of TLS', async () => {
  const plain = await listening(createPlainServer((_, response) => response.end('{}')))
  const text = await said(`https://localhost:${plain}`)
  expect(text).toMatch(/does not speak TLS on this port.*http:\/\/.*\nNext step: correct the scheme/)
  expect(await said(`http://localhost:${await tls(good)}`)).toMatch(/https:\/\//)
})

test('nothing that listens, and a connection that is cut', async () => {
  const closed = createTcpServer()
  const port = await listening(closed)
  await new Promise((resolve) => closed.close(resolve))
  const refused = await said(`http://127.0.0.1:${port}`)
  expect(refused).toMatch(/nothing listens there.*ECONNREFUSED.*\nNext step: check that the service runs/)
  const cut = await listening(createTcpServer((socket) => socket.destroy()))
  expect(await said(`http://127.0.0.1:${cut}`)).toMatch(/no response.*\nNext step: check that the service runs/)
})
