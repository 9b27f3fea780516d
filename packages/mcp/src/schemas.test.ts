// Guarantee: every maker's strict mode takes every tool, and what a schema cannot express is refused with what would be right.
import { createClient } from '@dormouse/client'
import { InMemoryTransport, Client as McpClient } from '@modelcontextprotocol/client'
import { expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { grants } from './grants.ts'
import { commonKeywords, schemaOf } from './schemas.ts'
import { createMcpServer } from './server.ts'

type Schema = { [word: string]: unknown; properties?: Record<string, Schema>; items?: Schema }

async function toolsOf() {
  const client = createClient({ baseUrl: 'http://127.0.0.1:1', apiKey: 'svc_sk_secret' })
  const [here, there] = InMemoryTransport.createLinkedPair()
  await createMcpServer({ clientFor: () => client, grants }).connect(there)
  const agent = new McpClient({ name: 'test', version: '1' })
  await agent.connect(here)
  onTestFinished(() => agent.close())
  return (await agent.listTools()).tools
}

/** Each schema in a schema, with its place. */
function* within(schema: Schema, place: string): Generator<[string, Schema]> {
  yield [place, schema]
  for (const [name, each] of Object.entries(schema.properties ?? {})) yield* within(each, `${place}.${name}`)
  if (schema.items) yield* within(schema.items, `${place}[]`)
}

/** What OpenAI's strict mode, Anthropic's and Gemini's function declarations all take. */
function strays([place, schema]: [string, Schema]): string[] {
  const words = Object.keys(schema).filter((word) => !commonKeywords.some((known) => known === word))
  const isObject = schema.type === 'object'
  const properties = Object.keys(schema.properties ?? {})
  return [
    ...words,
    typeof schema.type === 'string' ? '' : 'not one type',
    isObject && schema.additionalProperties !== false ? 'open object' : '',
    isObject && !schema.properties ? 'no properties' : '',
    schema.type === 'array' && !schema.items ? 'no items' : '',
    ((schema.enum ?? []) as unknown[]).every((value) => typeof value === 'string' && value !== '')
      ? ''
      : 'enum of others',
    ((schema.required ?? []) as string[]).every((name) => properties.includes(name)) ? '' : 'unknown required',
  ]
    .filter(Boolean)
    .map((word) => `${place}: ${word}`)
}

test('all tools, their arguments and results, have the keywords that all strict modes take', async () => {
  const tools = await toolsOf()
  expect(tools.length).toBeGreaterThan(10)
  const found = tools.flatMap(({ name, inputSchema, outputSchema }) =>
    [inputSchema, outputSchema].flatMap((schema) => [...within(schema as Schema, name)].flatMap(strays)),
  )
  expect(found).toEqual([])
  for (const { name } of tools) expect(name).toMatch(/^[a-z_]{1,64}$/)
})

test('each tool says what it returns', async () => {
  for (const { outputSchema } of await toolsOf()) expect(Object.keys(outputSchema?.properties ?? {})).not.toEqual([])
})

test('limits, defaults and choices are said in words, and a shape with a choice of shapes is none for a tool', () => {
  const json = (shape: z.ZodRawShape) => schemaOf(shape)['~standard'].jsonSchema.input({ target: 'draft-2020-12' })
  expect(json({ limit: z.int().min(1).max(100).default(20).describe('How many') })).toEqual({
    type: 'object',
    properties: { limit: { type: 'integer', description: 'How many; 1 to 100, default 20' } },
    additionalProperties: false,
  })
  for (const shape of [
    z.union([z.string(), z.int()]),
    z.literal('a'),
    z.string().nullable(),
    z.record(z.string(), z.int()),
  ])
    expect(() => json({ shape })).toThrow()
})

test.each([
  [{ tir: 'small' }, 'there is no argument "tir"; did you mean "tier"? The arguments are tier, limit, id, words'],
  [{ tier: 'huge' }, 'tier must be small or large'],
  [{}, 'tier must be small or large; it is missing'],
  [{ tier: 'small', limit: 200 }, 'limit must be at most 100'],
  [{ tier: 'small', limit: 'x' }, 'limit must be a number'],
  [{ tier: 'small', limit: 1.5 }, 'limit must be a whole number'],
  [{ tier: 'small', id: 'a' }, 'id must be an id such as 019a9f00-0000-7000-8000-000000000001'],
  [{ tier: 'small', words: [1] }, 'words.0 must be a string'],
  [{ tier: 'small', words: ['a', 'b', 'c'] }, 'words must be at most 2 items long'],
])('%j is refused in words', async (given, message) => {
  const shape = {
    tier: z.enum(['small', 'large']),
    limit: z.int().max(100).optional(),
    id: z.uuid().optional(),
    words: z.array(z.string()).max(2).optional(),
  }
  const { issues } = await schemaOf(shape)['~standard'].validate(given)
  expect(issues?.[0]?.message).toBe(message)
})

test('null is an argument that was left out: strict modes make a model fill in all of them', async () => {
  const shape = {
    tier: z.string(),
    limit: z.int().default(20),
    more: z.strictObject({ a: z.int().optional() }).optional(),
  }
  const checked = await schemaOf(shape)['~standard'].validate({ tier: 'small', limit: null, more: { a: null } })
  expect(checked).toEqual({ value: { tier: 'small', limit: 20, more: {} } })
})
