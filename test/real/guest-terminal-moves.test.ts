// Guarantee: a terminal that is attached while its desktop moves to another host, live or hibernated, is closed with the code of
// what has happened, and the SDK attaches it again: no byte is lost or repeated in either direction. At full length only.
import { type AdminClient, createAdminClient, createClient, Desktop } from '@dormouse/client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { waitFor } from '../wait-for.ts'
import { Instance } from './parts/instance.ts'

const size = { cols: 80, rows: 24 }

let instance: Instance
let admin: AdminClient
let desktop: Desktop
/** The codes with which the terminal's sockets were closed, in their order, and the causes that were said before. */
const closes: number[] = []
const causes: string[] = []

class Noted extends WebSocket {
  constructor(...given: ConstructorParameters<typeof WebSocket>) {
    super(...given)
    this.addEventListener('close', ({ code }) => closes.push(code))
    this.addEventListener('message', ({ data }) => {
      const frame = Buffer.from(data as ArrayBuffer)
      const end = frame[0] === 3 && JSON.parse(frame.toString('utf8', 1)).end
      if (end) causes.push(end.cause)
    })
  }
}

beforeAll(async () => {
  instance = await Instance.start({}, ['--no-tour', '--hosts', '2'])
  const { base_url: baseUrl, api_key: apiKey, operator_key: operatorKey } = instance.local
  admin = createAdminClient({ baseUrl, operatorKey })
  const { id } = await instance.create({ imageVersion: 'mini' })
  desktop = await Desktop.connect(id, { client: createClient({ baseUrl, apiKey, webSocket: Noted }) })
  await desktop.wake()
})
afterAll(async () => {
  await instance?.[Symbol.asyncDispose]()
})

test.each(['live', 'hibernate'] as const)('a move by mode "%s" closes it with 4006', async (mode) => {
  const command =
    'stty -echo; n=0; (while :; do echo "n $n"; n=$((n + 1)); sleep 0.2; done) & while read -r x; do echo "got $x"; done'
  const exec = await desktop.commands.start(['/bin/sh', '-c', command], { tty: size })
  const terminal = exec.attach()
  let text = ''
  const reading = (async () => {
    let at = 0
    for await (const { bytes, offset } of terminal.output) {
      expect(offset).toBe(at)
      at += bytes.length
      text += Buffer.from(bytes).toString()
    }
  })()
  const counted = () => [...text.matchAll(/n (\d+)\r\n/g)].map(([, n]) => Number(n))
  const typed: Promise<void>[] = []
  const type = () => typed.push(terminal.write(`${typed.length}\n`))
  await waitFor('its output', () => counted().length > 5)
  closes.splice(0)
  causes.splice(0)
  const { hostId: from } = await desktop.refresh()
  const move = await admin.moveDesktop(desktop.id, { mode })
  const typing = setInterval(type, 500)
  const { result } = await admin.waitForOperation(move.id)
  const after = counted().length
  await waitFor('output behind the move', () => counted().length > after + 20)
  clearInterval(typing)
  await Promise.all(typed)
  await waitFor('the last input', () => text.includes(`got ${typed.length - 1}\r\n`))
  expect(result).toMatchObject({ desktop_state: 'awake' })
  expect((await desktop.refresh()).hostId).not.toBe(from)
  console.info(`${mode}: closed with ${closes}, said ${causes}; ${typed.length} lines typed`)
  expect(counted()).toEqual(counted().map((_, at) => at))
  expect([...text.matchAll(/got (\d+)\r\n/g)].map(([, n]) => Number(n))).toEqual(typed.map((_, at) => at))
  // An upgrade that is refused is closed with 1006.
  expect([...new Set([...closes, 1006])].sort()).toEqual([1006, 4006])
  expect([...new Set(causes)]).toEqual(['moved'])
  await exec.kill()
  await reading
  expect(terminal.exit).toMatchObject({ state: 'exited', signal: 9 })
})
