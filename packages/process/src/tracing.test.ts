// Guarantee: tracing costs nothing if it is off, and a span knows what it is below.
import { execFileSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { createLog } from './log.ts'
import type { SpanStart, Tracing } from './spans.ts'
import { openTracing, traced } from './tracing.ts'
import { currentSpan, outsideWork } from './work-context.ts'

const log = createLog({ name: 'test', level: 'silent' })
const uuid = '0198f1c2-7c1e-7000-8000-000000000000'
const client = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'

const program = `
  import { registerHooks } from 'node:module'
  const loaded = []
  registerHooks({ load: (url, context, next) => (loaded.push(url), next(url, context)) })
  const { openTracing } = await import(${JSON.stringify(new URL('./index.ts', import.meta.url).href)})
  const tracing = await openTracing({ url: undefined })
  console.log(tracing === undefined, loaded.filter((url) => /open-telemetry|@opentelemetry/.test(url)).length)`

test('without a collector, nothing of OpenTelemetry is loaded', () => {
  const args = ['--input-type=module', '--eval', program]
  expect(execFileSync(process.execPath, args, { encoding: 'utf8' })).toBe('true 0\n')
})

test('work without tracing runs in no span, and its result and its error pass', async () => {
  const start: SpanStart = { name: 'x', kind: 'internal' }
  expect(await traced(undefined, start, async () => [1, currentSpan()])).toEqual([1, undefined])
  await expect(traced(undefined, start, async () => Promise.reject(new Error('no')))).rejects.toThrow('no')
})

/** The trace and the span of a traceparent. */
const partsOf = (tracing: Tracing, start: Partial<SpanStart>) => {
  const span = tracing.start({ name: 'x', kind: 'internal', ...start })
  span.end()
  return span.traceparent.split('-')
}

test('a span is below its parent; without a valid one it begins a trace, with the chosen id if there is one', async () => {
  const options = { service: 's', instance: 'i', share: 0, foreignParents: false, log }
  const tracing = (await openTracing({ url: 'http://127.0.0.1:9', ...options }))!
  const [, trace, , flags] = partsOf(tracing, { parent: client })
  expect([trace, flags]).toEqual([client.split('-')[1], '01'])
  const chosen = uuid.replaceAll('-', '')
  for (const parent of [null, 'nonsense', client.replace('4bf9', 'XXXX'), `00-${'0'.repeat(32)}-00f067aa0ba902b7-01`])
    expect(partsOf(tracing, { parent, traceId: uuid }).slice(1, 2)).toEqual([chosen])
  expect(partsOf(tracing, { traceId: 'not-a-uuid' })[1]).toMatch(/^[\da-f]{32}$/)
  // A share of 0 records nothing of its own.
  expect(partsOf(tracing, { parent: null })[3]).toBe('00')
  const inner = await traced(tracing, { name: 'outer', kind: 'internal', traceId: uuid }, async () => {
    expect(outsideWork(() => currentSpan())).toBeUndefined()
    return traced(tracing, { name: 'inner', kind: 'internal' }, async () => currentSpan()?.traceparent)
  })
  expect(inner?.split('-')[1]).toBe(chosen)
  await tracing.close()
})
