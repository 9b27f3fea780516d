// Guarantee: a malformed request is refused in a plain sentence that names the field, never in zod's own words.
import { changeOrgBody, createDesktopBody, createInviteBody, execBody, wakeBody } from '@dormouse/contract'
import { validatorCompiler } from 'fastify-zod-openapi'
import { expect, test } from 'vitest'
import type { z } from 'zod'
import { invalidRequest } from './validation.ts'

const refusalOf = (schema: z.ZodType, body: unknown) => {
  const validate = validatorCompiler({ schema, method: 'POST', url: '/', httpPart: 'body' })
  const { error } = validate(body) as { error?: Parameters<typeof invalidRequest>[0][] }
  return invalidRequest((error as never as NonNullable<typeof error>)[0], 'body')
}

test.each([
  [createDesktopBody, { tier: 'huge' }, 'tier', 'tier: must be small, default or large'],
  [createDesktopBody, {}, 'tier', 'tier: must be small, default or large'],
  [
    createDesktopBody,
    { tier: 'small', billing_mode: 'daily' },
    'billing_mode',
    'billing_mode: must be monthly or hourly',
  ],
  [
    createDesktopBody,
    { tier: 'small', idle_timeout_secs: -1 },
    'idle_timeout_secs',
    'idle_timeout_secs: must be at least 0',
  ],
  [createDesktopBody, 'x', 'body', 'body: must be an object'],
  [wakeBody, { discard_memory: 1 }, 'discard_memory', 'discard_memory: must be true or false'],
  [wakeBody, { discard_memroy: true }, 'discard_memroy', 'discard_memroy: is not a known field'],
  [execBody, { command: 'x', cwd: 1 }, 'cwd', 'cwd: must be a string'],
  [execBody, { command: [] }, 'command', 'command: must be a string or a list of strings'],
  [createInviteBody, { valid_secs: 1 }, 'valid_secs', 'valid_secs: must be at least 60'],
  [createInviteBody, { name: '' }, 'name', 'name: must be at least 1 character long'],
  [changeOrgBody, { max_desktops: 1.5 }, 'max_desktops', 'max_desktops: must be a whole number'],
])('%# %j is refused by the name of its field', (schema, body, field, sentence) => {
  const refusal = refusalOf(schema, body)
  expect(refusal.extra.field).toBe(field)
  expect(refusal.detail).toContain(sentence)
})
