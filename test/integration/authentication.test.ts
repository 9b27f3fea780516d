// Guarantee: a token of the identity provider lets in exactly whom it names; everything else is refused without harm to
// anyone, and the provider's absence is neither a way in nor a way out.
import { createHmac, createPublicKey, randomUUID } from 'node:crypto'
import type { RequestListener } from 'node:http'
import { newId } from '@dormouse/contract'
import { generateKeyPair, type JWTPayload, SignJWT } from 'jose'
import { expect, test } from 'vitest'
import { type Org, Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import type { ApiAnswer } from './parts/api.ts'
import { audience, IdentityProvider } from './parts/identity-provider.ts'

interface Scene extends AsyncDisposable {
  stack: Stack
  provider: IdentityProvider
  /** What the list of desktops is answered with, for that credential. */
  ask(token: string): Promise<ApiAnswer>
  forge(claims?: JWTPayload, header?: { kid?: string | undefined }): Promise<string>
}

const mine: Org = { id: newId(), key: '' }

/** A stack that believes a provider whose client `mine` is of an organisation that exists. */
async function scene(settings: object | ((provider: IdentityProvider) => object) = {}): Promise<Scene> {
  const provider = await IdentityProvider.start({ mine: mine.id, strange: randomUUID(), homeless: undefined })
  const more = typeof settings === 'function' ? settings(provider) : settings
  const controlPlane = { oidcIssuer: provider.issuer, oidcAudience: audience, ...more }
  const stack = await Stack.start({ hosts: 0, controlPlane })
  await stack.database.rows('insert into organisations (id, name) values ($1, $2)', [mine.id, 'mine'])
  return {
    stack,
    provider,
    ask: (token) => stack.api('GET', '/v1/desktops', { key: token }),
    forge: (claims = {}, header = {}) => provider.forge({ org_id: mine.id, ...claims }, header),
    async [Symbol.asyncDispose]() {
      await provider[Symbol.asyncDispose]()
      await stack[Symbol.asyncDispose]()
    },
  }
}

const b64 = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')
const inSecs = (secs: number): number => Math.floor(Date.now() / 1_000) + secs

/** 503 in the form that tells a client to come again. */
function expectUnreachable(answer: ApiAnswer): void {
  expect([answer.status, answer.json.code]).toEqual([503, 'idp_unreachable'])
  expect(answer.headers['retry-after']).toMatch(/^\d+$/)
}

test('a token of the provider is its client’s organisation, and no other', async () => {
  await using s = await scene()
  const token = await s.provider.token('mine')
  const made = await s.stack.api('POST', '/v1/desktops', { key: token, body: { tier: 'small' } })
  expect([made.status, made.json.org_id]).toEqual([201, mine.id])
  expect((await s.ask(token)).json.desktops).toHaveLength(1)
  expect((await s.ask(s.stack.org.key)).json.desktops).toEqual([])
  expect((await s.stack.api('GET', `/v1/desktops/${made.json.id}`)).status).toBe(404)
  expect((await s.stack.api('GET', '/admin/v1/orgs', { key: token })).status).toBe(403)
})

test.each(['ES256', 'EdDSA', 'PS256'])('a token signed with %s is as good', async (alg) => {
  await using s = await scene()
  await s.provider.rotate('other', alg)
  expect((await s.ask(await s.forge())).status).toBe(200)
})

test('a token that is not good in every point is 401, and says no more than a stranger may know', async () => {
  await using s = await scene()
  const { provider, forge } = s
  const good = await forge()
  const [head, body, signature] = good.split('.') as [string, string, string]
  const publicKey = createPublicKey({ key: provider.key as never, format: 'jwk' })
  const hs256 = (secret: string | Buffer) => {
    const signed = `${b64({ alg: 'HS256', kid: provider.key.kid })}.${body}`
    return `${signed}.${createHmac('sha256', secret).update(signed).digest('base64url')}`
  }
  const { privateKey: stranger } = await generateKeyPair('RS256')
  const refused: Record<string, string> = {
    expired: await forge({ exp: inSecs(-31) }),
    'not yet valid': await forge({ nbf: inSecs(40) }),
    'without exp': await forge({ exp: undefined }),
    'wrong issuer': await forge({ iss: 'https://elsewhere.example' }),
    'without issuer': await forge({ iss: undefined }),
    'issuer with a slash more': await forge({ iss: `${provider.issuer}/` }),
    'wrong audience': await provider.token('mine', 'https://elsewhere.example/api'),
    'without audience': await forge({ aud: undefined }),
    'no organisation': await provider.token('homeless'),
    'unknown organisation': await provider.token('strange'),
    'organisation that is no id': await forge({ org_id: 'mine' }),
    'organisations, many': await forge({ org_id: [mine.id] }),
    'organisation in a prototype': await forge({ org_id: undefined, ['__proto__']: { org_id: mine.id } }),
    'alg none': `${b64({ alg: 'none' })}.${body}.`,
    'alg none, signed': `${b64({ alg: 'none', kid: provider.key.kid })}.${body}.${signature}`,
    'HS256 with the public key as PEM': hs256(publicKey.export({ type: 'spki', format: 'pem' })),
    'HS256 with the public key as bytes': hs256(publicKey.export({ type: 'spki', format: 'der' })),
    'another’s key under the same kid': await new SignJWT({ iss: provider.issuer, aud: audience, org_id: mine.id })
      .setProtectedHeader({ alg: 'RS256', kid: provider.key.kid! })
      .setExpirationTime('1 minute')
      .sign(stranger),
    'another’s key in its header': await new SignJWT({ iss: provider.issuer, aud: audience, org_id: mine.id })
      .setProtectedHeader({ alg: 'RS256', kid: 'mine', jwk: { kty: 'RSA' }, jku: 'http://127.0.0.1:1/jwks' } as never)
      .setExpirationTime('1 minute')
      .sign(stranger),
    'unknown kid': await forge({}, { kid: 'nobody’s' }),
    'unknown crit': await provider
      .forge({ org_id: mine.id }, { crit: ['x'], x: 1 } as never)
      .catch(() => `${head}.e30.${signature}`),
    'claims changed': `${head}.${b64({ iss: provider.issuer, aud: audience, exp: inSecs(60), org_id: mine.id, a: 1 })}.${signature}`,
    'signature missing': `${head}.${body}.`,
    'signature cut': good.slice(0, -8),
    'encrypted form': `${good}.a.b`,
    'claims that are no JSON': `${head}.Zm9v.${signature}`,
    'padding of 9 KiB': await forge({ filler: 'x'.repeat(9_000) }),
  }
  for (const [what, token] of Object.entries(refused)) {
    const answer = await s.ask(token)
    expect([what, answer.status, answer.headers['www-authenticate']]).toEqual([what, 401, 'Bearer'])
    expect(answer.json).toMatchObject({ type: 'about:blank', status: 401, code: 'unauthenticated' })
  }
  expect((await s.ask(good)).status).toBe(200)
  const logged = JSON.stringify(s.stack.chronicle.lines)
  for (const secret of [body, signature, s.stack.org.key]) expect(logged).not.toContain(secret)
})

test('clocks may differ by half a minute, a caller may have no name, and the claim’s id may be in capitals', async () => {
  await using s = await scene()
  const good = [
    await s.forge({ exp: inSecs(-15) }),
    await s.forge({ nbf: inSecs(15), iat: inSecs(15) }),
    await s.forge({ sub: undefined }),
    await s.forge({ org_id: mine.id.toUpperCase() }),
    await s.forge({ aud: ['https://elsewhere.example', audience] }),
    await s.forge({}, { kid: undefined }),
  ]
  for (const token of good) expect((await s.ask(token)).status).toBe(200)
})

test('the claim that names the organisation, and where the keys are, can be set', async () => {
  await using s = await scene((provider) => ({
    oidcJwksUrl: `${provider.issuer}/jwks`,
    oidcOrgClaim: 'https://dormouse.example/org',
  }))
  expect((await s.ask(await s.forge({ 'https://dormouse.example/org': mine.id }))).status).toBe(200)
  expect((await s.ask(await s.forge())).status).toBe(401)
  expect(s.provider.asked.filter((path) => path !== '/jwks')).toEqual([])
})

test('with no issuer configured every JWT is 401, and API keys are what they were', async () => {
  await using s = await scene({ oidcIssuer: undefined, oidcAudience: undefined })
  expect((await s.ask(await s.provider.token('mine'))).status).toBe(401)
  expect((await s.ask(s.stack.org.key)).status).toBe(200)
})

test('what could never be good costs the provider nothing', async () => {
  await using s = await scene()
  const [head, body, signature] = (await s.forge()).split('.')
  const elsewhere = await s.forge({ iss: 'https://elsewhere.example' })
  for (const token of [`${b64({ alg: 'none' })}.${body}.`, `${b64({ alg: 'HS256' })}.${body}.${signature}`, elsewhere])
    expect((await s.ask(token)).status).toBe(401)
  for (const token of ['garbage', `${head}.${body}`, `${head}..${signature}`, 'a.b.c', 'x'.repeat(9_000)])
    expect((await s.ask(token)).status).toBe(401)
  expect(s.provider.asked).toEqual([])
})

test('a token is checked once: asked again, neither key nor provider is needed', async () => {
  await using s = await scene()
  const token = await s.provider.token('mine')
  expect((await s.ask(token)).status).toBe(200)
  const answers = await Promise.all(Array.from({ length: 20 }, () => s.ask(token)))
  expect(answers.map(({ status }) => status)).toEqual(Array(20).fill(200))
  expect(s.provider.keysAsked).toBe(1)
})

test('a token that was good a moment ago is refused when its time is over', async () => {
  await using s = await scene()
  // It is accepted for 30 s after its expiry; if the machine was paused meanwhile, another is made.
  const token = await waitFor('a token to be good', async () => {
    const short = await s.forge({ exp: inSecs(-28) })
    return (await s.ask(short)).status === 200 && short
  })
  await waitFor('its refusal', async () => (await s.ask(token)).status === 401)
})

test('a new key of the provider is known the moment it signs, and those it replaced are not any more', async () => {
  await using s = await scene()
  const old = await s.forge()
  expect((await s.ask(old)).status).toBe(200)
  const unused = await s.forge({ sub: 'later' })
  await s.provider.rotate('second')
  expect((await s.ask(await s.provider.token('mine'))).status).toBe(200)
  expect((await s.ask(unused)).status).toBe(401)
})

test('a flood of unknown kids is a trickle to the provider, and no good token is refused for it', async () => {
  await using s = await scene({ rateLimitStrangersPerSecond: 100_000 })
  expect((await s.ask(await s.forge())).status).toBe(200)
  const garbage = await Promise.all(Array.from({ length: 100 }, (_, i) => s.forge({}, { kid: `garbage-${i}` })))
  await s.provider.rotate('second')
  const good = await s.provider.token('mine')
  const began = performance.now()
  const answers = await Promise.all([...garbage, good].map(s.ask))
  expect(answers.map(({ status }) => status)).toEqual([...Array(100).fill(401), 200])
  // The provider is asked once a second at most.
  expect(s.provider.keysAsked).toBeLessThanOrEqual(3 + Math.floor((performance.now() - began) / 1_000))
})

test('with the provider down and no key, a token is 503; it is good again when the provider is back', async () => {
  await using s = await scene()
  const token = await s.provider.token('mine')
  await s.provider.down()
  expectUnreachable(await s.ask(token))
  expectUnreachable(await s.ask(token))
  expect((await s.ask('a.b.c')).status).toBe(401)
  expect((await s.ask(s.stack.org.key)).status).toBe(200)
  await s.provider.up()
  await waitFor('the token to be good', async () => (await s.ask(token)).status === 200)
})

test('with the provider down, keys already known go on working, and only a token that needs another is 503', async () => {
  await using s = await scene()
  expect((await s.ask(await s.provider.token('mine'))).status).toBe(200)
  const fresh = await s.forge({ sub: 'never seen before' })
  await s.provider.down()
  expect((await s.ask(fresh)).status).toBe(200)
  expect((await s.ask(await s.forge({ exp: inSecs(-60) }))).status).toBe(401)
  expectUnreachable(await s.ask(await s.forge({}, { kid: 'new' })))
})

const says =
  (status: number, body: string, headers = {}): RequestListener =>
  (_request, response) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(body)
  }
const discovery = (document: object): RequestListener => says(200, JSON.stringify(document))

// The slowest first.
test.concurrent.each<[what: string, answer: (provider: IdentityProvider) => RequestListener]>([
  ['a body without end', () => (_request, response) => void response.writeHead(200).write('{')],
  ['silence', () => () => undefined],
  ['a page of HTML', () => says(200, '<!doctype html><p>Welcome')],
  ['an empty object', () => says(200, '{}')],
  ['nothing', () => says(200, '')],
  ['an error', () => says(500, '{"keys": []}')],
  ['a way elsewhere', ({ issuer }) => says(302, '', { location: `${issuer}/jwks` })],
  ['another’s name', () => discovery({ issuer: 'https://elsewhere.example', jwks_uri: 'http://127.0.0.1:1/' })],
  ['keys without TLS', ({ issuer }) => discovery({ issuer, jwks_uri: 'http://192.0.2.1/jwks' })],
  ['keys in a file', ({ issuer }) => discovery({ issuer, jwks_uri: 'file:///etc/passwd' })],
  ['more than anyone wants', ({ issuer }) => discovery({ issuer, jwks_uri: `${issuer}/jwks`, x: 'x'.repeat(300_000) })],
  [
    'keys that are none',
    ({ issuer }) =>
      (request, response) =>
        request.url === '/jwks'
          ? says(200, JSON.stringify({ keys: [{ kty: 'RSA', kid: 'first', n: '!', e: 'AQAB' }] }))(request, response)
          : discovery({ issuer, jwks_uri: `${issuer}/jwks` })(request, response),
  ],
])('a provider that answers %s is 503, within seconds, and harms no key that is known', async (_what, answer) => {
  await using s = await scene()
  const token = await s.forge()
  s.provider.spoiled = answer(s.provider)
  expectUnreachable(await s.ask(token))
  s.provider.spoiled = undefined
  await waitFor('the token to be good', async () => (await s.ask(token)).status === 200)
  s.provider.spoiled = answer(s.provider)
  expectUnreachable(await s.ask(await s.forge({}, { kid: 'unknown' })))
  expect((await s.ask(await s.forge({ sub: 'fresh' }))).status).toBe(200)
})
