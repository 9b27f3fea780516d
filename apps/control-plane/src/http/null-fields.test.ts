// Guarantee: an optional field that is null counts as left out at any depth, and a null that means something stays.
import { changeDesktopBody, changeEntryBody, changeWebhookBody, createFileUrlBody, inputBody } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { omitNulls } from './null-fields.ts'

const without = (schema: z.ZodType, value: unknown): unknown => {
  omitNulls(schema, value)
  return value
}

test.each([
  [changeDesktopBody, { idle_timeout_secs: null }, {}],
  [changeWebhookBody, { url: null, enabled: null, types: null }, { types: null }],
  [createFileUrlBody, { path: '/x', method: 'GET', expires_in_secs: null }, { path: '/x', method: 'GET' }],
  [changeEntryBody, { action: 'mkdir', path: '/x', mode: null }, { action: 'mkdir', path: '/x', mode: null }],
  [
    inputBody,
    { actions: [{ type: 'click', x: null, button: null, hold: null }, null], screenshot: { fit: null }, settle: null },
    { actions: [{ type: 'click' }, null], screenshot: {}, settle: null },
  ],
])('%#', (schema, given, left) => {
  expect(without(schema, given)).toEqual(left)
})

test('required fields, and fields that no schema has, stay for the validation to refuse', () => {
  const schema = z.object({ needed: z.string(), inner: z.object({ a: z.string().optional() }).optional() })
  const given = { needed: null, other: null, inner: { a: null, b: null } }
  expect(without(schema, given)).toEqual({ needed: null, other: null, inner: { b: null } })
  expect(without(schema, null)).toBeNull()
  expect(without(schema, [{ needed: null }])).toEqual([{ needed: null }])
})
