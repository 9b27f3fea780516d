// Guarantee: an operator can read, page by page, who took what from whom; nobody else can.
import { createAdminClient } from '@dormouse/client'
import { expect, test } from 'vitest'
import { House } from '../house.ts'

test('takeovers are listed newest first, by pages and by desktop, for operators only', async () => {
  await using house = await House.start()
  const { principals } = house.replica.parts
  const operatorKey = await principals.createOperatorKey('ops')
  const other = (await principals.createKey(house.org.id, 'other')).api_key
  const [one, two] = [await house.desktop('awake'), await house.desktop('awake')]
  for (const [id, key] of [
    [one.id, house.org.key],
    [one.id, other],
    [two.id, house.org.key],
    [two.id, other],
    [one.id, house.org.key],
  ] as const) {
    const body = { claim: 'view', takeover: true }
    expect((await house.api('POST', `/v1/desktops/${id}/stream`, { body, key })).status).toBe(200)
  }
  const admin = createAdminClient({ baseUrl: house.url, operatorKey, retries: 0 })
  const all = await admin.listAudit()
  expect(all.next).toBeUndefined()
  expect(all.entries.map(({ subject }) => subject)).toEqual([one.id, two.id, one.id])
  expect(all.entries[0]).toMatchObject({ action: 'stream.takeover', details: { claim: 'view' } })
  const first = await admin.listAudit({ limit: 2 })
  const second = await admin.listAudit({ limit: 2, cursor: first.next! })
  expect([...first.entries, ...second.entries]).toEqual(all.entries)
  expect(second.next).toBeUndefined()
  expect((await admin.listAudit({ subject: two.id })).entries).toHaveLength(1)
  for (const bad of ['limit=0', 'limit=1001', 'cursor=x', 'cursor=', 'subject='])
    expect([bad, (await house.api('GET', `/admin/v1/audit?${bad}`, { key: operatorKey })).status]).toEqual([bad, 400])
  expect((await house.api('GET', '/admin/v1/audit')).status).toBe(403)
  expect((await house.api('GET', '/admin/v1/audit', { key: null })).status).toBe(401)
})
