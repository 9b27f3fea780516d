// Guarantee: a name is of one live desktop of its organisation, whoever asks at once; labels select the same desktops everywhere.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Org, Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import { send } from './parts/api.ts'

let stack: Stack
beforeAll(async () => {
  stack = await Stack.start()
})
afterAll(() => stack[Symbol.asyncDispose]())

const create = (body: object, given: { key?: string; headers?: Record<string, string> } = {}) =>
  stack.api('POST', '/v1/desktops', { ...given, body: { tier: 'small', ...body } })
const change = (id: string, body: object) => stack.api('PATCH', `/v1/desktops/${id}`, { body })
const list = async (query: string, org?: Org) => {
  const { status, json } = await stack.api('GET', `/v1/desktops?${query}`, { ...(org && { key: org.key }) })
  expect(status).toBe(200)
  return (json.desktops as { id: string; name: string | null }[]).map(({ id, name }) => name ?? id)
}

describe('a name', () => {
  test.each([
    ['Upper', false],
    ['-a', false],
    ['a-', false],
    ['a b', false],
    ['', false],
    ['ä', false],
    ['a\u0000', false],
    ['a'.repeat(65), false],
    ['01980f3e-7a5c-7c1e-9d54-1c2f5e6a7b80', false],
    ['a'.repeat(64), true],
    ['7', true],
    ['a.b_c-d', true],
  ])('%j is accepted: %s', async (name, isAccepted) => {
    const { status, json } = await create({ name })
    if (isAccepted) expect([status, json.name]).toEqual([201, name])
    else expect([status, json.field]).toEqual([400, 'name'])
  })

  test('is taken once, tells its holder, and is free again when that is destroyed', async () => {
    const { json: first } = await create({ name: 'taken' })
    const second = await create({ name: 'taken' })
    expect([second.status, second.json.code, second.json.desktop_id]).toEqual([409, 'name_taken', first.id])
    const { json: other } = await create({ name: 'other' })
    const renamed = await change(other.id, { name: 'taken' })
    expect([renamed.status, renamed.json.code, renamed.json.desktop_id]).toEqual([409, 'name_taken', first.id])
    expect(await list('name=taken')).toEqual(['taken'])
    await stack.ask(first.id, 'destroy')
    expect((await change(other.id, { name: 'taken' })).json.name).toBe('taken')
    expect((await change(other.id, { name: null })).json.name).toBeNull()
    expect((await create({ name: 'taken' })).status).toBe(201)
  })

  test('that is taken costs nothing of the organisation’s rate', async () => {
    const org = await stack.newOrg('polling')
    await create({ name: 'busy' }, { key: org.key })
    const { lifecycle } = stack.replica.parts
    while (!lifecycle.take(org.id, 100));
    const answers: number[] = []
    for (let i = 0; i < 120; i++) answers.push((await create({ name: 'busy' }, { key: org.key })).status)
    expect(new Set(answers)).toEqual(new Set([409]))
  })

  test('of another organisation is neither taken nor found', async () => {
    await create({ name: 'ours' })
    const other = await stack.otherOrg
    expect(await list('name=ours', other)).toEqual([])
    expect((await create({ name: 'ours' }, { key: other.key })).status).toBe(201)
  })

  test('that two desktops are given at once goes to one of them', async () => {
    const made = await Promise.all([create({}), create({})])
    const answers = await Promise.all(made.map(({ json }) => change(json.id, { name: 'both' })))
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 409])
  })
})

describe('get_or_create', () => {
  test('by a hundred callers at once makes one desktop', async () => {
    const answers = await Promise.all(
      Array.from({ length: 100 }, () =>
        waitFor('an answer that is not 503', async () => {
          const answer = await create({ name: 'one', get_or_create: true })
          return answer.status !== 503 && answer.status !== 429 && answer
        }),
      ),
    )
    expect(answers.map(({ status }) => status).sort()).toEqual([...Array(99).fill(200), 201])
    expect(new Set(answers.map(({ json }) => json.id)).size).toBe(1)
  })

  test('makes one on two replicas, too, whose sessions and terms are ended meanwhile', async () => {
    await using two = await Stack.start({ replicas: 2, hosts: 0 })
    const answered: { status: number; id: string }[] = []
    const ask = async (caller: number) => {
      let tries = caller
      const answer = await waitFor('an answer', async () => {
        // As behind a proxy: one that does not lead answers 503.
        const { url } = two.replicas[tries++ % 2]!
        const { status, json } = await send(`${url}/v1/desktops`, 'POST', { key: two.org.key, body: wanted })
        return status < 300 && { status, id: json.id as string }
      })
      answered.push(answer)
    }
    const wanted = { tier: 'small', name: 'one', get_or_create: true }
    const callers = Array.from({ length: 100 }, (_, caller) => ask(caller))
    let ended = 0
    for (let round = 0; (round < 10 && answered.length < callers.length) || ended === 0; round++) {
      ended += await two.database.endSessions('dormouse')
      ended += await two.database.endSessions('dormouse-leadership')
      const before = answered.length
      const enough = Math.min(before + 4, callers.length)
      await waitFor('answers between', () => answered.length >= enough)
    }
    await Promise.all(callers)
    expect(new Set(answered.map(({ id }) => id)).size).toBe(1)
    expect(answered.filter(({ status }) => status === 201).length).toBeLessThanOrEqual(1)
    expect(await two.database.rows(`select 1 from desktops where name = 'one'`)).toHaveLength(1)
  })

  test('returns the desktop unchanged, also if the tier differs; a key is looked at first', async () => {
    const { json } = await create({ name: 'kept', labels: { team: 'qa' } })
    const wish = { name: 'kept', tier: 'large', labels: { team: 'dev' }, get_or_create: true }
    const again = await create(wish)
    expect([again.status, again.json]).toEqual([200, json])
    const { json: keyed } = await create({}, { headers: { 'idempotency-key': 'names' } })
    const replay = await create(wish, { headers: { 'idempotency-key': 'names' } })
    expect([replay.status, replay.json.id, replay.headers['idempotency-replayed']]).toEqual([200, keyed.id, 'mismatch'])
  })

  test('is the same request if its labels come in another order', async () => {
    const headers = { 'idempotency-key': 'ordered' }
    await create({ labels: { a: '', b: '' } }, { headers })
    const again = await create({ labels: { b: '', a: '' } }, { headers })
    expect(again.headers['idempotency-replayed']).toBe('true')
  })

  test('needs a name', async () => {
    const { status, json } = await create({ get_or_create: true })
    expect([status, json.field]).toEqual([400, 'name'])
  })
})

describe('labels', () => {
  test('are merged by a PATCH, and null removes one', async () => {
    const { json } = await create({ labels: { team: 'qa', run: '42' } })
    const changed = await change(json.id, { labels: { run: null, env: 'a' } })
    expect([changed.status, changed.json.labels]).toEqual([200, { team: 'qa', env: 'a' }])
    expect((await stack.see(json.id)).labels).toEqual({ team: 'qa', env: 'a' })
  })

  test.each<[unknown, string]>([
    [{ '-a': 'x' }, 'labels.-a'],
    [{ a: 'x\u0007' }, 'labels.a'],
    [{ a: 'x'.repeat(256) }, 'labels.a'],
    [{ a: 1 }, 'labels.a'],
    [['a'], 'labels'],
    [Object.fromEntries(Array.from({ length: 33 }, (_, i) => [`k${i}`, ''])), 'labels'],
  ])('%j are refused by the name of the field', async (labels, field) => {
    const { status, json } = await create({ labels })
    expect([status, json.field]).toEqual([400, field])
  })

  test('are at most 32, also after a merge', async () => {
    const many = (from: number) => Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`k${from + i}`, '']))
    const { json } = await create({ labels: many(0) })
    const changed = await change(json.id, { labels: many(20) })
    expect([changed.status, changed.json.field]).toEqual([400, 'labels'])
  })
})

describe('a selector', () => {
  let org: Org
  const made: Record<string, string> = {}
  beforeAll(async () => {
    org = await stack.newOrg('selecting')
    for (const [name, labels] of Object.entries({
      a: { team: 'qa', run: '41' },
      b: { team: 'qa', run: '42', note: 'x, "y"' },
      c: { team: 'dev' },
      d: {},
    }))
      made[name] = (await create({ name, labels }, { key: org.key })).json.id
  })

  test.each([
    ['team=qa', ['a', 'b']],
    ['team=qa,run!=42', ['a']],
    ['team in (qa,dev)', ['a', 'b', 'c']],
    ['run in (1,2,3,4,5,6,7,8,42),team in (qa,dev)', ['b']],
    ['team notin (qa)', ['c', 'd']],
    ['team', ['a', 'b', 'c']],
    ['!team', ['d']],
    ['note="x, \\"y\\""', ['b']],
    ['nothing=0', []],
  ])('%s lists the same desktops as it selects in events and usage', async (select, names) => {
    const query = `select=${encodeURIComponent(select)}`
    expect(await list(`${query}&sort=name`, org)).toEqual(names)
    const ids = names.map((name) => made[name]!)
    const events = await stack.api('GET', `/v1/events?limit=100&type=desktop.state&${query}`, { key: org.key })
    expect(events.json.events.map((event: { desktop_id: string }) => event.desktop_id).sort()).toEqual(ids.toSorted())
  })

  test('that does not parse is a 400 that shows where', async () => {
    for (const path of ['desktops', 'events', 'usage']) {
      const { status, json } = await stack.api('GET', `/v1/${path}?select=team%3Dqa%20run`, { key: org.key })
      expect([path, status, json.field]).toEqual([path, 400, 'select'])
      expect(json.detail).toContain('at character 9')
    }
  })

  test('selects an event by the labels of its time, not of now', async () => {
    const { json } = await create({ labels: { phase: 'one' } }, { key: org.key })
    await stack.api('PATCH', `/v1/desktops/${json.id}`, { key: org.key, body: { labels: { phase: 'two' } } })
    const by = async (select: string) =>
      (await stack.api('GET', `/v1/events?limit=100&select=${select}`, { key: org.key })).json.events.length
    expect([await by('phase%3Done'), await by('phase%3Dtwo')]).toEqual([1, 0])
  })
})

describe('a list', () => {
  let org: Org
  beforeAll(async () => {
    org = await stack.newOrg('listing')
    for (const name of ['c', undefined, 'a', 'b', undefined]) await create({ name }, { key: org.key })
  })

  test.each(['created_at', '-created_at', 'name'])(
    'sorted by %s has each desktop once over its pages',
    async (sort) => {
      const whole = await list(`sort=${sort}`, org)
      if (sort === 'name') expect(whole.slice(0, 3)).toEqual(['a', 'b', 'c'])
      const paged: string[] = []
      for (let path = `/v1/desktops?sort=${sort}&limit=2`; path; ) {
        const { json, headers } = await stack.api('GET', path, { key: org.key })
        paged.push(...json.desktops.map(({ id, name }: { id: string; name: string | null }) => name ?? id))
        path = /<(.*)>/.exec(String(headers.link ?? ''))?.[1] ?? ''
      }
      expect(paged).toEqual(whole)
      expect(new Set(paged).size).toBe(5)
    },
  )

  test.each([
    ['sort=size', 'sort'],
    ['select=', 'select'],
    ['name=UP', 'name'],
    ['cursor=a,b', 'cursor'],
    ['cursor=a,01980f3e-7a5c-7c1e-9d54-1c2f5e6a7b80', 'cursor'],
    ['cursor=%00,01980f3e-7a5c-7c1e-9d54-1c2f5e6a7b80&sort=name', 'cursor'],
  ])('%s is refused by the name of the parameter', async (query, field) => {
    const { status, json } = await stack.api('GET', `/v1/desktops?${query}`, { key: org.key })
    expect([status, json.field]).toEqual([400, field])
  })
})
