// Guarantee: E2B's names send the actions that they mean, and what is launched gets its arguments as they are.
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { Desktop } from './desktop.ts'
import { shown } from './shown.ts'
import { execScript } from './testing/exec-script.ts'
import { desktop as sample } from './testing/samples.ts'
import { serve } from './testing/scripted-server.ts'

async function started(outcomes: string[] = [], longest = Infinity) {
  const failing = execScript({ exit_code: 127, stderr: 'no such program\n' })
  const server = await serve((request, turn) => {
    const { path, method, body: sent } = request
    if (path.endsWith('/screen')) return { body: { width: 1280, height: 800, sequence: 'a', pointer: { x: 1, y: 2 } } }
    if (path.includes('/execs')) return failing(request, turn)
    if (method === 'POST' && JSON.parse(String(sent)).actions[0].text?.length > longest) return tooLong
    return { body: method === 'GET' ? sample() : { outcome: outcomes.shift() ?? 'done' } }
  })
  onTestFinished(() => server[Symbol.asyncDispose]())
  const desktop = await Desktop.connect(sample().id, { baseUrl: server.baseUrl, apiKey: 'k' })
  const bodies = () => server.seen.filter(({ method }) => method === 'POST').map(({ body }) => JSON.parse(String(body)))
  return { desktop, bodies }
}

/** As the service answers a batch that would take too long. */
const tooLong = { status: 400, body: { status: 400, code: 'invalid_request', detail: 'take long', field: 'actions' } }

test('each name sends its action, also at x = 0', async () => {
  const { desktop, bodies } = await started()
  await desktop.leftClick(0, 5)
  await desktop.rightClick()
  await desktop.middleClick(1, 2)
  await desktop.doubleClick(3, 4, { settle: true })
  await desktop.moveMouse(5, 6)
  await desktop.drag([0, 1], [2, 3])
  await desktop.scroll('up', 3)
  await desktop.press('Enter')
  await desktop.press(['ctrl', 'c'])
  await desktop.write('Grüße', { delayInMs: 5 })
  expect(bodies().map(({ actions }) => actions[0])).toEqual([
    { type: 'click', button: 'left', count: 1, x: 0, y: 5 },
    { type: 'click', button: 'right', count: 1 },
    { type: 'click', button: 'middle', count: 1, x: 1, y: 2 },
    { type: 'click', button: 'left', count: 2, x: 3, y: 4 },
    { type: 'move', x: 5, y: 6 },
    {
      type: 'drag',
      path: [
        { x: 0, y: 1 },
        { x: 2, y: 3 },
      ],
    },
    { type: 'scroll', dy: -3 },
    { type: 'key', keys: ['Enter'] },
    { type: 'key', keys: ['ctrl', 'c'] },
    { type: 'type', text: 'Grüße' },
  ])
  expect(bodies()[3].settle).toEqual({})
  expect(bodies()[9].pace_ms).toBe(5)
  expect(await desktop.getCursorPosition()).toEqual({ x: 1, y: 2 })
  expect(await desktop.getScreenSize()).toEqual({ width: 1280, height: 800 })
})

test('a long text comes in batches that fit, and stops where one does', async () => {
  const text = '𝒳'.repeat(1_000)
  const whole = await started()
  await whole.desktop.write(text, { settle: true })
  const pieces = whole.bodies().map(({ actions }) => actions[0].text)
  expect(pieces.join('')).toBe(text)
  expect(pieces.map((piece) => [...piece].length)).toEqual([416, 416, 168])
  expect(whole.bodies().map(({ settle }) => settle)).toEqual([undefined, undefined, {}])
  const cut = await started(['done', 'interrupted'])
  expect((await cut.desktop.write(text)).outcome).toBe('interrupted')
  expect(cut.bodies()).toHaveLength(2)
})

test('a piece that would take too long is sent in halves, each with a key of its own', async () => {
  const { desktop, bodies } = await started([], 100)
  const text = `${'Grüße\n'.repeat(50)}end`
  const paste = ['Control', 'Shift', 'v']
  await desktop.write(text, { paste, idempotencyKey: 'k' })
  const actions = bodies().map(({ actions }) => actions[0])
  const sent = actions.filter((action) => action.text.length <= 100)
  expect(sent.map((action) => action.text).join('')).toBe(text)
  expect(actions.every((action) => action.paste.length === 3)).toBe(true)
})

test('what is launched gets its arguments as they are; a program that is missing is named', () => {
  const folder = mkdtempSync(join(tmpdir(), 'dormouse-shown-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const name = join(folder, `a b'; touch x; $(touch y) "\`z\``)
  const run = (words: string[]) => {
    const [program, ...rest] = shown(words, { user: 'nobody-here', display: ':7' })
    return spawnSync(program!, rest, { cwd: folder, encoding: 'utf8' })
  }
  expect(run(['sh', '-c', 'echo "$DISPLAY" > "$1.new"; mv "$1.new" "$1"', 'sh', name]).status).toBe(0)
  while (!existsSync(name)) execFileSync('true')
  expect(execFileSync('ls', [folder], { encoding: 'utf8' }).trim().split('\n')).toHaveLength(1)
  expect(run(['no-such-program-here'])).toMatchObject({
    status: 127,
    stderr: expect.stringContaining('no-such-program'),
  })
})

test('launch and open fail where the program does', async () => {
  const { desktop, bodies } = await started()
  await expect(desktop.launch(['firefox', '--new-window'])).rejects.toThrow('no such program')
  await expect(desktop.open('-rf')).rejects.toThrow('no such program')
  expect(bodies().map(({ command }) => command.slice(4))).toEqual([
    ['user', ':0', 'firefox', '--new-window'],
    ['user', ':0', 'xdg-open', './-rf'],
  ])
})
