// Guarantee: what the contract says of desktops, their states and their guests is true of real ones, too. All of the table
// at full length; otherwise each kind of thing that a real host does, once.
import { createAdminClient } from '@dormouse/client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Context } from '../contract/context.ts'
import type { Checked } from '../contract/row.ts'
import { chapters } from '../contract/table.ts'
import { Instance } from './parts/instance.ts'

const long = process.env.DORMOUSE_TEST_LONG === '1'
const short = `
  service.guest desktop.id desktop.state desktop.image_version desktop.generation desktop.current_generation_id
  desktop.host_id states.filter states.wrong-state exec.result exec.timeout_secs exec.504 files.write files.413
  stream.result hibernate.200 states.guest wake.202 hibernate.repeat wake.200 operation.error destroy.200
  versioning.document`
  .trim()
  .split(/\s+/)

const table = chapters.flatMap((chapter) => chapter.rows).filter((row): row is Checked => 'check' in row)
const rows = long ? table : short.map((id) => table.find((row) => row.id === id)!)

let instance: Instance
let context: Context
beforeAll(async () => {
  instance = await Instance.start()
  const { base_url: baseUrl, api_key: key, operator_key: operatorKey } = instance.local
  const admin = createAdminClient({ baseUrl, operatorKey })
  const { id } = await admin.createOrg({ name: 'other' })
  const { api_key: otherKey } = await admin.createKey({ org_id: id, name: 'other' })
  context = new Context({ url: baseUrl, key, otherKey })
})
afterAll(async () => {
  const left = await context?.close()
  await instance?.[Symbol.asyncDispose]()
  expect(left).toEqual([])
})

test.each(rows)('$id: $sentence', async (row) => {
  await row.check(context)
})
