// Guarantee: a refusal tells its reader what to do, in words that are true of the request.
import { newId } from '@dormouse/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import type { ApiWish } from './parts/api.ts'

let stack: Stack
let operator: string

beforeAll(async () => {
  stack = await Stack.start({ hosts: 0 })
  operator = await stack.replica.parts.principals.createOperatorKey('ops')
})
afterAll(() => stack[Symbol.asyncDispose]())

const at = `/v1/desktops/${newId()}`
const cases: [method: string, path: string, wish: () => ApiWish, status: number, says: RegExp][] = [
  ['GET', '/v1/desktops', () => ({ key: operator }), 401, /operator key .*; send an API key \(`svc_sk_…`\)/],
  ['POST', '/mcp', () => ({ key: operator, body: {} }), 401, /operator key .*; send an API key/],
  ['GET', `${at}/execs/${newId()}/attach`, () => ({ key: operator }), 401, /operator key .*; send an API key/],
  ['GET', '/v1/desktops', () => ({ key: null }), 401, /credential is missing; send `Authorization: Bearer/],
  ['GET', '/v1/desktops', () => ({ key: 'svc_sk_x' }), 401, /not valid; check that the API key/],
  ['GET', '/admin/v1/hosts', () => ({}), 403, /for operators; send an operator key/],
  ['GET', '/admin/v1/hosts', () => ({ key: null }), 401, /credential is missing; send/],
  ['GET', '/v1/desktop', () => ({}), 404, /^no such route; check the path/],
  ['GET', at, () => ({}), 404, /check the id and the credential’s organisation/],
  ['GET', '/v1/events?type=desktop.stat', () => ({}), 400, /"desktop.stat"; did you mean "desktop.state"/],
  ['GET', '/v1/events?type=desktop.state&type=wake', () => ({}), 400, /no type "wake".*; must be desktop.state, /],
  ['PUT', `${at}/files/x`, () => ({ body: Buffer.alloc(8_388_609) }), 413, /at most 8388608 bytes; send a larger/],
  ['POST', `${at}/entries`, () => ({ body: { action: 'mv', path: '/a' } }), 400, /action: must be mkdir, move, /],
  ['POST', `${at}/fork`, () => ({}), 501, /create another desktop/],
  ['POST', '/v1/webhooks', () => ({ body: { url: 'nonsense' } }), 400, /must be a URL, such as/],
  ['POST', '/v1/webhooks', () => ({ body: { url: 7 } }), 400, /url: must be a string/],
]

test.each(cases)('%s %s', async (method, path, wish, status, says) => {
  const { json } = await stack.api(method, path, wish())
  expect(json).toMatchObject({ status, detail: expect.stringMatching(says) })
})
