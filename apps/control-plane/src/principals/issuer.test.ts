// Guarantee: keys come over TLS or from this very machine, and from nowhere else. An issuer that returns nonsense is an error.
import { readConfig } from '@dormouse/process'
import { badAnswers, badBodies, RawServer } from '@dormouse/process/testing/raw-server'
import { expect, test } from 'vitest'
import { configSchema } from '../config.ts'
import { fetchKeySet, isFetchable } from './issuer.ts'

test.each([
  ['https://login.example', true],
  ['https://login.example:8443/realms/one', true],
  ['http://127.0.0.1:9000', true],
  ['http://127.8.9.1', true],
  ['http://localhost:9000/', true],
  ['http://[::1]:9000', true],
  ['http://login.example', false],
  ['http://127.0.0.1.login.example', false],
  ['http://localhost.login.example', false],
  ['http://127.0.0.1@login.example', false],
  ['http://169.254.169.254/latest', false],
  ['file:///etc/passwd', false],
  ['login.example', false],
  ['', false],
])('%s may be asked: %s', (url, may) => {
  expect(isFetchable(url)).toBe(may)
})

test.each([
  [{ OIDC_ISSUER: 'https://login.example' }, 'OIDC_AUDIENCE'],
  [{ OIDC_AUDIENCE: 'dormouse' }, 'OIDC_ISSUER'],
  [{ OIDC_JWKS_URL: 'https://login.example/jwks' }, 'OIDC_ISSUER'],
  [{ OIDC_ISSUER: 'http://login.example', OIDC_AUDIENCE: 'dormouse' }, 'OIDC_ISSUER'],
])('half an issuer is a configuration that names what is missing: %o', (env, missing) => {
  expect(() => readConfig(configSchema, { DATABASE_URL: 'postgres://x', ...env })).toThrow(missing)
})

test.each(Object.entries({ ...badAnswers, ...badBodies }))(
  'an issuer that answers with %s has no keys',
  async (_, answer) => {
    await using server = await RawServer.start(answer)
    await expect(fetchKeySet({ issuer: server.url, jwksUrl: server.url })).rejects.toThrow(Error)
    await expect(fetchKeySet({ issuer: server.url, jwksUrl: null })).rejects.toThrow(Error)
    await expect.poll(() => server.open).toBe(0)
  },
)

test('an issuer that redirects is not followed', async () => {
  await using server = await RawServer.start((socket) =>
    socket.end('HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n'),
  )
  await expect(fetchKeySet({ issuer: server.url, jwksUrl: server.url })).rejects.toThrow('302')
  expect(server.requests).toHaveLength(1)
})
