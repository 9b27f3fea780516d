// Guarantee: the search for secrets that ends every stack and every instance finds what is planted, and fails the run.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createAdminClient } from '@dormouse/client'
import { expect, test } from 'vitest'
import { type Answered, Secrets } from '../secrets.ts'
import { Stack } from '../stack.ts'

const answer = (text: string, more: Partial<Answered> = {}): Answered => ({
  method: 'GET',
  path: '/v1/desktops?limit=1',
  status: 200,
  headers: {},
  text,
  ...more,
})

const said = (level: number, msg: string, facts: object = {}) => `${JSON.stringify({ level, msg, ...facts })}\n`

test.each([
  ['an API key', 'the key svc_sk_abcdefghijklmnop was refused'],
  ['an API key', 'svc_op_abcdefghijklmnop'],
  ['an invitation of a host', 'dormouse_invite_abcdefghij-klmnop'],
  ['a web token', 'Bearer eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJob3N0In0.c2lnbmF0dXJl'],
  ['a private key', '-----BEGIN OPENSSH PRIVATE KEY-----'],
  ['a password in an address', 'cannot reach postgres://dormouse:hunter2@127.0.0.1:5432/dormouse'],
])('%s is known by its form, in a line and in an answer', (what, text) => {
  const secrets = new Secrets()
  expect(secrets.inText('the line', text)).toEqual([`the line tells ${what}`])
  expect(secrets.inAnswer(answer(text))).toEqual([`GET /v1/desktops → 200 tells ${what}`])
  expect(secrets.inAnswer(answer('', { headers: { location: text } }))).toHaveLength(1)
})

test('what is hidden, and what only looks like a secret, is none', () => {
  const harmless = ['svc_sk_…', 'postgres://dormouse:[hidden]@127.0.0.1/db', 'http://127.0.0.1:8080/a@b', 'eyJ.eyJ.']
  expect(harmless.flatMap((text) => new Secrets().inText('the line', text))).toEqual([])
})

test('what one answer hands out on purpose is found everywhere else, by its value', () => {
  const secrets = new Secrets()
  const token = 'A'.repeat(43)
  const stream = answer(`{"url":"http://127.0.0.1/screens/x/view#${token}"}`, {
    method: 'POST',
    path: '/v1/desktops/x/stream',
  })
  secrets.learnFrom(stream)
  expect(secrets.inAnswer(stream)).toEqual([])
  expect(secrets.inText('the line', `opened ${token}`)).toEqual(['the line tells a token of a screen'])
  expect(secrets.inAnswer(answer(`{"url":"${token}"}`))).toHaveLength(1)
})

test('a path of the machine is found in an answer', () => {
  const path = join(tmpdir(), 'dormouse-host-x/disks')
  expect(new Secrets().inAnswer(answer(`no room in ${path}`))).toEqual([
    'GET /v1/desktops → 200 tells a path of the machine',
  ])
})

test('log files are searched at any depth', () => {
  const folder = mkdtempSync(join(tmpdir(), 'dormouse-secrets-'))
  const secrets = new Secrets()
  secrets.learn('a key', 'Qk3-very-own-value')
  mkdirSync(join(folder, 'a/b'), { recursive: true })
  writeFileSync(join(folder, 'a/b/agent.log'), 'a line\nwith Qk3-very-own-value in it\n')
  writeFileSync(join(folder, 'a/keys.json'), 'Qk3-very-own-value')
  expect(secrets.inLogFiles(folder)).toEqual([`${join(folder, 'a/b/agent.log')} tells a key`])
  rmSync(folder, { recursive: true })
})

test('a stack that has logged a key of its own, or answered with one, fails its test', async () => {
  const inLine = await Stack.start({ hosts: 0 })
  inLine.chronicle.write(said(20, 'asked', { by: inLine.org.key }))
  await expect(inLine[Symbol.asyncDispose]()).rejects.toThrow('the line “asked” tells the key of first')
  const inAnswer = await Stack.start({ hosts: 0 })
  inAnswer.secrets.learn('an id', inAnswer.org.id)
  await inAnswer.desktop()
  await expect(inAnswer[Symbol.asyncDispose]()).rejects.toThrow('POST /v1/desktops → 201 tells an id')
})

test('a stack that has made keys, invited, enrolled, opened screens and refused many tells none of it', async () => {
  await using stack = await Stack.start()
  const operatorKey = await stack.replica.parts.principals.createOperatorKey('ops')
  stack.secrets.learn('the operator’s key', operatorKey)
  const admin = createAdminClient({ baseUrl: stack.url, operatorKey })
  const { api_key } = await admin.createKey({ org_id: stack.org.id, name: 'more' })
  stack.secrets.learn('another key', api_key)
  stack.secrets.learn('an invitation', (await admin.inviteHost({ name: 'one more' })).token)
  const { id } = await stack.desktop('awake')
  const stream = await stack.api('POST', `/v1/desktops/${id}/stream`, { body: { claim: 'view' } })
  expect(stream.status).toBe(200)
  const asked = [
    stack.api('GET', `/v1/desktops/${api_key}`),
    stack.api('GET', `/v1/desktops?state=${operatorKey}`),
    stack.api('GET', '/v1/desktops', { key: `${api_key}x` }),
    stack.api('GET', `/v1/usage?start=${api_key}`),
    stack.api('POST', '/v1/desktops', { body: { tier: api_key } }),
    stack.api('POST', '/v1/desktops', { body: { [api_key]: 1, tier: 'small' } }),
    stack.api('POST', '/v1/desktops', { body: { image: api_key, tier: 'small' } }),
    stack.api('GET', `/v1/desktops?${api_key}=1`),
    stack.api('GET', `/v1/events?type=${api_key}`),
    stack.api('POST', '/admin/v1/orgs', { key: operatorKey, body: { [api_key]: { [operatorKey]: 1 } } }),
    stack.api('GET', `/v1/nothing/${api_key}`),
  ]
  expect((await Promise.all(asked)).map(({ status }) => status)).not.toContain(500)
})
