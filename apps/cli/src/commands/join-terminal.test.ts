// Guarantee: also with a service of the release before, which has no WebSocket for it, keys reach the program once and in order, over lost answers; its output is shown to the last byte; the detach key
// leaves it running.
import { PassThrough } from 'node:stream'
import { createClient } from '@dormouse/client'
import { desktopId } from '@dormouse/client/testing/samples'
import { type Script, serve } from '@dormouse/client/testing/scripted-server'
import { expect, onTestFinished, test } from 'vitest'
import { waitFor } from '../../../../test/wait-for.ts'
import { joinTerminal } from './join-terminal.ts'

const execId = '01980f3e-7a5c-7c1e-9d54-1c2f5e6a7b81'
const exec = {
  desktop_id: desktopId,
  id: execId,
  stdin: { end: 3, open: true },
} as never

/** A program that gets input, and whose output is what `said` has. */
async function stage(more: { lostAnswers?: number } = {}) {
  const seen = { typed: 'abc', said: '', hasEnded: false, sizes: [] as unknown[], raw: [] as boolean[] }
  let lost = more.lostAnswers ?? 0
  const script: Script = async ({ path, query, body }) => {
    if (path.endsWith('/resize')) return { body: { size: seen.sizes.push(JSON.parse(String(body))) } }
    if (path.endsWith('/stdin')) {
      seen.typed = seen.typed.slice(0, Number(query.get('offset'))) + String(body)
      return lost-- > 0 ? 'reset' : { body: { next_offset: seen.typed.length } }
    }
    if (path.endsWith('/attach')) return { status: 404 }
    if (path.endsWith(execId)) return { body: exec }
    const offset = Number(query.get('offset'))
    await waitFor(() => seen.said.length > offset || seen.hasEnded)
    const next = String(seen.said.length)
    const headers = {
      'dormouse-next-offset': next,
      'dormouse-exec-state': 'running',
      'dormouse-output-end': String(seen.hasEnded),
    }
    return { headers, body: seen.said.slice(offset) }
  }
  const server = await serve(script)
  onTestFinished(() => server[Symbol.asyncDispose]())
  const { execs } = createClient({ baseUrl: server.baseUrl, apiKey: 'svc_sk_x' })
  const [input, output] = [new PassThrough(), new PassThrough()]
  let size = { cols: 80, rows: 24 }
  let resized: () => void = () => undefined
  const joined = joinTerminal(execs, exec, {
    ...{ input, output, offset: 0, signal: new AbortController().signal, size: () => size },
    raw: (on) => void seen.raw.push(on),
    onResize: (listener) => {
      resized = listener
      return () => undefined
    },
  })
  const resize = (cols: number, rows: number) => {
    size = { cols, rows }
    resized()
  }
  return { seen, input, output, joined, resize }
}

test('keys and output pass, lost answers repeat nothing, and the end of the program is the end', async () => {
  const { seen, input, output, joined, resize } = await stage({ lostAnswers: 2 })
  input.write('one')
  input.write('\x03two')
  await waitFor(() => seen.typed === 'abcone\x03two')
  resize(100, 30)
  await waitFor(() => seen.sizes.length === 2)
  expect(seen.sizes).toEqual([
    { cols: 80, rows: 24 },
    { cols: 100, rows: 30 },
  ])
  seen.said = 'shown'
  await waitFor(() => output.readableLength === 5)
  seen.said += ' to the end'
  seen.hasEnded = true
  expect(await joined).toBe('ended')
  expect([String(output.read()), seen.raw]).toEqual(['shown to the end', [true, false]])
})

test('the detach key leaves; what was typed before it is sent', async () => {
  const { seen, input, joined } = await stage()
  input.write('x\x1dy')
  expect(await joined).toBe('left')
  expect(seen.raw).toEqual([true, false])
  expect(seen.typed).not.toContain('y')
})
