// Guarantee: on a real guest, programs that draw on a terminal work over one WebSocket; a paste of 1 MiB and output arrive
// whole over cut sockets and killed agents and control planes. At full length only: hostile.test.ts has the short form.
import { createHash } from 'node:crypto'
import { createClient, Desktop, type Terminal } from '@dormouse/client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { waitFor } from '../wait-for.ts'
import { GuestStage } from './parts/guest-stage.ts'
import { Instance } from './parts/instance.ts'

const MiB = 1024 * 1024
const afterBytes = 2 * MiB
const line = '0123456789abcde\n'
const size = { cols: 80, rows: 24 }

let instance: Instance
let stage: GuestStage
let desktop: Desktop
const sockets: WebSocket[] = []

class Noted extends WebSocket {
  constructor(...given: ConstructorParameters<typeof WebSocket>) {
    super(...given)
    sockets.push(this)
  }
}

beforeAll(async () => {
  instance = await Instance.start()
  stage = await GuestStage.awake(instance)
  const { base_url: baseUrl, api_key: apiKey } = instance.local
  desktop = await Desktop.connect(stage.desktop.id, { client: createClient({ baseUrl, apiKey, webSocket: Noted }) })
})
afterAll(async () => {
  await instance?.[Symbol.asyncDispose]()
})

const inTerminal = async (command: string) =>
  (await desktop.commands.start(['/bin/sh', '-c', command], { tty: size, envs: { TERM: 'xterm' } })).attach()

/** Collects what the terminal shows. */
function watched(terminal: Terminal) {
  const seen = { text: '' }
  const ended = (async () => {
    for await (const { bytes } of terminal.output) seen.text += Buffer.from(bytes).toString('latin1')
  })()
  const shows = (text: string) => waitFor(`"${text}" on the screen`, () => seen.text.includes(text))
  return { seen, shows, ended }
}

test('an editor writes what is typed, top draws, and both see a new size', async () => {
  const editor = await inTerminal('vi /root/note.txt')
  const screen = watched(editor)
  // Its last line begins with its mode.
  await screen.shows('- /root/note.txt')
  screen.seen.text = ''
  editor.resize({ cols: 100, rows: 40 })
  await screen.shows('\x1b[40;1H\x1b[K- /root/note.txt')
  await editor.write('ihello, terminal')
  await screen.shows('hello, terminal')
  screen.seen.text = ''
  await editor.write('\x1b')
  // An escape that is followed at once is the beginning of a longer key.
  await screen.shows('- /root/note.txt [Modified]')
  await editor.write(':wq\r')
  await screen.ended
  expect(editor.exit).toMatchObject({ state: 'exited', exit_code: 0 })
  expect(await stage.run('cat /root/note.txt')).toBe('hello, terminal\n')
  const top = await inTerminal('top -d 1')
  const list = watched(top)
  await list.shows('PID')
  list.seen.text = ''
  // It draws again.
  await list.shows('PID')
  await top.write('q')
  await list.ended
  expect(top.exit?.exit_code).toBe(0)
  const shell = await inTerminal('stty size; until [ "$(stty size)" = "50 132" ]; do sleep 0.2; done; stty size')
  const said = watched(shell)
  await said.shows('24 80')
  shell.resize({ cols: 132, rows: 50 })
  await said.ended
  expect(said.seen.text).toContain('50 132')
})

test('a paste of 1 MiB and 2 MiB of output arrive whole, over cut sockets and killed processes', async () => {
  const paste = Array.from({ length: MiB / 16 }, (_, n) => `${n}`.padStart(15, '0')).join('\n')
  const output = `yes ${line.trim()} | head -c ${afterBytes}`
  const terminal = await inTerminal(
    `stty raw -echo; printf ready; head -c ${paste.length} | md5sum; ${output}; read -r x; exit 6`,
  )
  const pieces: Buffer[] = []
  const troubles = ['socket', 'control plane', 'socket', 'agent', 'socket']
  const head = `ready${createHash('md5').update(paste).digest('hex')}  -\n`
  const sent: Promise<void>[] = []
  let bytesSeen = 0
  for await (const { bytes, offset } of terminal.output) {
    expect(offset).toBe(bytesSeen)
    bytesSeen += bytes.length
    pieces.push(Buffer.from(bytes))
    if (sent.length === 0) sent.push(terminal.write(paste))
    // The last key of all: what reads the paste may read ahead.
    if (bytesSeen === head.length + afterBytes && sent.length === 1) sent.push(terminal.write('\n'))
    const trouble = pieces.length % 3 === 0 ? troubles.shift() : undefined
    if (trouble === 'socket') sockets.at(-1)!.close()
    else if (trouble) await instance.kill(trouble)
  }
  await Promise.all(sent)
  const said = Buffer.concat(pieces).toString()
  expect(said.slice(0, head.length)).toBe(head)
  expect(said.slice(head.length) === line.repeat(afterBytes / line.length)).toBe(true)
  expect(terminal.exit).toMatchObject({ state: 'exited', exit_code: 6 })
  expect(sockets.length).toBeGreaterThan(3)
})
