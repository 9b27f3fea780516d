// Guarantee: keys come over TLS or from this very machine, and from nowhere else.
import { readConfig } from '@dormouse/process'
import { expect, test } from 'vitest'
import { configSchema } from '../config.ts'
import { isFetchable } from './issuer.ts'

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
