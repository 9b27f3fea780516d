// Guarantee: a host is removed only when somebody has agreed to what is lost with it; a program is never asked.
import { problem } from '@dormouse/client/testing/scripted-server'
import { Command } from 'commander'
import { expect, test } from 'vitest'
import type { Context } from '../context.ts'
import { exitCodes } from '../failures.ts'
import { json, type Terminal } from '../terminal.ts'
import { start } from '../testing/process.ts'
import { addHostRemove } from './host-remove.ts'

const hostId = '019a9f00-0000-7000-8000-0000000000cc'
const lost = [{ id: '019a9f00-0000-7000-8000-000000000001', org_id: '019a9f00-0000-7000-8000-0000000000ff' }]
const removal = { host_id: hostId, name: 'hv-3', removed_at: null, lost: 1, desktops: lost }
const service = () => start(() => ({ body: removal }))
const asked = (seen: { method: string; path: string; body: Buffer }[]) =>
  seen.map(({ method, path, body }) => `${method} ${path} ${body}`.trim())

test('--yes-lose removes without a question, and --json puts the one document on stdout', async () => {
  const { dormouse, seen } = await service()
  const told = await dormouse(['admin', 'host', 'remove', 'hv-3', '--yes-lose', '1'])
  expect(told).toMatchObject({ code: 0, stderr: 'hv-3 is removed; 1 desktop failed; inform their owners\n' })
  expect(told.stdout).toContain(lost[0]!.id)
  const { code, stdout, stderr } = await dormouse(['admin', 'host', 'remove', 'hv-3', '--yes-lose', '1', '--json'])
  expect([code, JSON.parse(stdout), stderr]).toEqual([0, removal, ''])
  const sent = 'POST /admin/v1/hosts/hv-3/removal {"yes_lose":1}'
  expect(asked(seen)).toEqual([sent, sent])
})

test.each([[[]], [['--json']]])('without it, where nobody can be asked, nothing is removed: %j', async (options) => {
  const { dormouse, seen } = await service()
  const { code, stdout, stderr } = await dormouse(['admin', 'host', 'remove', 'hv-3', ...options])
  expect([code, stdout]).toEqual([2, ''])
  expect(stderr).toContain('removing hv-3 destroys the data of 1 desktop for good')
  expect(stderr).toContain('to confirm, add --yes-lose 1')
  if (options.length > 0) expect(JSON.parse(stderr)).toMatchObject({ code: 'not_confirmed', lost: 1 })
  expect(asked(seen)).toEqual(['GET /admin/v1/hosts/hv-3/removal'])
})

test('one who agreed to lose too few is told how many it would be', async () => {
  const { dormouse } = await start(({ method }) =>
    method === 'GET' ? { body: removal } : problem(409, 'would_lose', 'hv-3 has …'),
  )
  const { code, stderr } = await dormouse(['admin', 'host', 'remove', 'hv-3', '--yes-lose', '0', '--json'])
  expect([code, JSON.parse(stderr)]).toEqual([
    exitCodes.conflict,
    expect.objectContaining({ code: 'would_lose', lost: 1, next_step: 'to confirm, add --yes-lose 1' }),
  ])
})

test('a host that was removed before is not removed again, and that is said', async () => {
  const gone = { ...removal, removed_at: '2026-01-02T03:04:05.678Z', lost: 0, desktops: [] }
  const { dormouse } = await start(({ method }) => ({
    body: method === 'GET' ? gone : { ...gone, removed_before: true },
  }))
  const { code, stderr } = await dormouse(['admin', 'host', 'remove', 'hv-3'])
  expect([code, stderr]).toEqual([0, expect.stringMatching(/^hv-3 was removed before, at 2026.*nothing was changed/)])
})

test('--lost declares a loss, and a program reads each desktop that fails before it agrees', async () => {
  const { dormouse, seen } = await service()
  const refused = await dormouse(['admin', 'host', 'remove', 'hv-3', '--lost', '--json'])
  expect(JSON.parse(refused.stderr)).toMatchObject({ code: 'not_confirmed', lost: 1, desktops: lost })
  const told = await dormouse(['admin', 'host', 'remove', 'hv-3', '--lost', '--yes-lose', '1'])
  expect(told).toMatchObject({ code: 0, stderr: 'hv-3 is declared lost; 1 desktop failed; inform their owners\n' })
  const back = await dormouse(['admin', 'host', 'return', 'hv-3'])
  expect([back.code, back.stdout]).toEqual([0, expect.stringContaining(lost[0]!.id)])
  expect(asked(seen)).toEqual([
    'GET /admin/v1/hosts/hv-3/removal',
    'POST /admin/v1/hosts/hv-3/loss {"yes_lose":1}',
    'POST /admin/v1/hosts/hv-3/return {}',
  ])
})

/** A person at a terminal who types that. */
async function typing(answer: string) {
  const said: string[] = []
  const sent: unknown[] = []
  const terminal = {
    signal: new AbortController().signal,
    interactive: true,
    note: (text: string) => void said.push(text),
    ask: async (question: string) => {
      said.push(question)
      return answer
    },
    write: (text: string) => void said.push(text),
  } as unknown as Terminal
  const operator = () =>
    ({
      previewRemoval: async () => removal,
      removeHost: async (...given: unknown[]) => sent.push(given) && removal,
    }) as never
  const show: Context['show'] = (options, document, text) => terminal.write(options.json ? json(document) : text())
  const host = new Command('host').exitOverride()
  addHostRemove(host, { operator, show, terminal })
  const ended = await host.parseAsync(['remove', 'hv-3'], { from: 'user' }).then(
    () => 'done',
    (error: Error) => error.message,
  )
  return { ended, said: said.join('\n'), sent }
}

test('a person is told what is lost, and types the name', async () => {
  const { ended, said, sent } = await typing('hv-3')
  expect([ended, sent]).toEqual(['done', [['hv-3', { yes_lose: 1 }, expect.anything()]]])
  expect(said).toMatch(
    new RegExp(`${lost[0]!.id}.*hv-3 has the only disk of 1 desktop. Removing it cannot be undone.`, 's'),
  )
})

test.each(['', 'y', 'yes', 'hv-4'])('one who types %j removes nothing', async (answer) => {
  expect(await typing(answer)).toMatchObject({ ended: 'nothing was removed', sent: [] })
})
