// An SSH server that breaks every rule it can. The same dice make the same plan, which is what can be shown of it.
import type { Socket } from 'node:net'
import { message, sayRaw } from '@dormouse/agent/testing/ssh-server.ts'
import { type Dice, diceOf } from '../dice.ts'
import type { Line, Manner } from './actor.ts'

interface Act {
  name: string
  do: (line: Line) => void
}

const maxWord = 0xffffffff
const many = 300

/** Messages that a server might send, each as it should not. */
const acts: readonly ((dice: Dice) => Act)[] = [
  (dice) => said('announced', ({ number, nonce }) => data(number, `dormouse-${nonce} began ${dice.int(2 ** 31)}\n`)),
  () => said('announced as errors', ({ number, nonce }) => errors(number, `dormouse-${nonce} began 1\n`)),
  (dice) => said('output', ({ number }) => data(number, dice.bytes(200))),
  (dice) => said('errors', ({ number }) => errors(number, dice.bytes(200))),
  (dice) => said('a place', ({ number }) => data(number, `/a\0/b\0${dice.pick(['12\0', 'zz\0', '\0', '-1\0'])}`)),
  (dice) => said('a line of a file', ({ number }) => data(number, dice.pick(fileLines))),
  (dice) => said('an answer', ({ number }) => data(number, dice.pick(answers))),
  (dice) => said('much output', ({ number }) => data(number, Buffer.alloc(30_000, 'x')), dice.pick([1, 100])),
  () => said('small output', ({ number }) => data(number, 'x'), many),
  (dice) => said('other extended data', ({ number }) => message(95, number, dice.pick([0, 2, maxWord]), 'x')),
  () => said('end of file', ({ number }) => message(96, number)),
  () => said('close', ({ number }) => message(97, number)),
  (dice) =>
    said('exit', ({ number }) => message(98, number, 'exit-status', flag(dice), dice.pick([0, 1, 97, maxWord]))),
  (dice) =>
    said('signal', ({ number }) =>
      message(98, number, 'exit-signal', flag(dice), dice.pick(['KILL', 'X', '']), flag(dice), '', ''),
    ),
  (dice) =>
    said(
      'a request',
      ({ number }) => message(98, number, dice.pick(requests), flag(dice), dice.bytes(20)),
      dice.pick([1, many]),
    ),
  () => said('success', ({ number }) => message(99, number)),
  () => said('failure', ({ number }) => message(100, number)),
  (dice) => said('window', ({ number }) => message(93, number, dice.pick([0, 1, maxWord])), dice.pick([1, 20])),
  (dice) =>
    said('a channel is open', () =>
      message(91, dice.int(300), dice.int(5), dice.pick([0, maxWord]), dice.pick([0, 1, maxWord])),
    ),
  (dice) => said('a channel is refused', () => message(92, dice.int(300), dice.int(9), 'no', '')),
  (dice) =>
    said(
      'another channel',
      () => message(90, dice.pick(kinds), dice.int(9), maxWord, 32_768, dice.bytes(40)),
      dice.pick([1, many]),
    ),
  (dice) =>
    said('a global request', () => message(80, dice.pick(globals), flag(dice), dice.bytes(60)), dice.pick([1, many])),
  (dice) => said('keys', () => message(80, 'hostkeys-00@openssh.com', flag(dice), ...keys(dice)), dice.pick([1, many])),
  (dice) => said('an answer nobody asked for', () => message(dice.pick([81, 82]), dice.bytes(9)), dice.pick([1, 20])),
  (dice) => said('new keys', () => message(dice.pick([20, 21, 30, 31, 33]), dice.bytes(200))),
  (dice) => said('who are you', () => message(dice.pick([50, 51, 52, 53, 60, 61]), dice.bytes(40))),
  (dice) =>
    said('extensions', () =>
      message(7, dice.pick([0, 1, maxWord]), 'server-sig-algs', 'ssh-ed25519,'.repeat(dice.int(500))),
    ),
  (dice) => said('goodbye', () => message(1, dice.int(20), 'bye', '')),
  (dice) => said('nothing', () => message(2, 'x'.repeat(dice.int(30_000))), dice.pick([1, 20])),
  (dice) => said('noise', () => message(1 + dice.int(255), dice.bytes(40))),
  () => ({ name: 'cut', do: ({ client }) => socketOf(client).destroy() }),
  () => ({ name: 'deaf', do: ({ client }) => void socketOf(client).pause() }),
  (dice) => ({ name: 'no cipher', do: ({ client }) => void socketOf(client).write(dice.bytes(200)) }),
]

/** Of files and uploads: too long, negative, of another form, or what was not asked. */
const fileLines = [
  ...['ready\n', 'placed 0\n', 'placed -1\n', '5 1-2-3\nhello', '99999999999999 1-2-3\n', '1048577 1-2-3\nx'],
  ...['-1 1-2-3\n', '5\n', 'none\n', '0\n', `${'9'.repeat(5_000)}\n`, ': errno 28\n', ': errno 9999\n'],
]

/** To the first calls: of other calls, too long, of a program that has died, or of what was not asked. */
const answers = [
  ...['1 0\n', '1 -\n', '2 5\nhello2 0\n', '1 99999\n', '1 9\nno usage\n1 0\n', '99 0\n', '1 1', ' \n'],
  ...['2 29\nentry 33188 1 0 0 5 1 0\naend\n2 0\n', '2 34\nentry 33188 1 0 0 5 9999 9999\nend\n2 0\n'],
  ...[
    '2 11\nno errno 2\n2 0\n',
    '2 5\nnone\n2 0\n',
    '2 4\nall\n2 0\n',
    '2 11\nno unknown\n2 0\n',
    '2 13\nexec x exited2 0\n',
    '0 0\n',
    '1 -1\n',
  ],
]

const requests = [
  'exit-status',
  'exit-signal',
  'xon-xoff',
  'keepalive@openssh.com',
  'eow@openssh.com',
  'x'.repeat(1_000),
]
const globals = ['hostkeys-00@openssh.com', 'keepalive@openssh.com', 'tcpip-forward', 'x']
const kinds = ['session', 'forwarded-tcpip', 'x11', 'auth-agent@openssh.com', 'forwarded-streamlocal@openssh.com', 'x']

const data = (number: number, what: string | Buffer) => message(94, number, asText(what))
const errors = (number: number, what: string | Buffer) => message(95, number, 1, asText(what))
const flag = (dice: Dice) => Buffer.from([dice.int(2)])
/** With its length before it, as texts are said. */
const asText = (what: string | Buffer): string => (typeof what === 'string' ? what : what.toString('latin1'))

/** Host keys that are none, or so long that to verify one takes a while. */
function keys(dice: Dice): string[] {
  const rsa = () =>
    Buffer.concat([message(0, 'ssh-rsa').subarray(1), message(0, 'x'.repeat(3)).subarray(1), dice.bytes(500)])
  return dice.many(3, () => dice.pick(['x', '', rsa().toString('latin1')]))
}

/** Says the same message this often. */
function said(name: string, make: (line: Line) => Buffer, times = 1): Act {
  return {
    name: times > 1 ? `${name} ×${times}` : name,
    do: (line) => {
      const bytes = make(line)
      for (let i = 0; i < times; i++) sayRaw(line.client, bytes)
    },
  }
}

const socketOf = (client: Line['client']) => (client as unknown as { _sock: Socket })._sock

/** What may come instead of a greeting, or of SSH. */
const doors: Record<string, (socket: Socket, dice: Dice) => void> = {
  'says nothing': (socket) => void socket.resume(),
  'makes noise': (socket, dice) => void socket.resume().write(dice.bytes(2_000)),
  'says another nonce': (socket) => void socket.on('data', () => socket.write('RDY 0000000000000000\n')),
  'greets without end': (socket) => pour(socket, 'HELLO\n'.repeat(1_000)),
  'is another server': (socket, dice) => {
    socket.on('data', (bytes: Buffer) => {
      const nonce = /RST (\w+)\n/.exec(bytes.toString('latin1'))?.[1]
      if (nonce) socket.write(`RDY ${nonce}\n`)
      if (bytes.includes('GO ')) socket.write(dice.pick(greetings))
    })
  },
  hangs: (socket) => void socket.destroy(),
}

const greetings = [
  'SSH-1.0-x\r\n',
  'SSH-2.0-\r\n',
  `SSH-2.0-${'x'.repeat(9_000)}\r\n`,
  'welcome\r\n'.repeat(2_000),
  `SSH-2.0-x\r\n${'\0'.repeat(40_000)}`,
  'SSH-2.0-x\r\n\xff\xff\xff\xff',
  '\0'.repeat(100),
]

function pour(socket: Socket, text: string): void {
  const more = () => {
    while (!socket.destroyed && socket.write(text));
  }
  socket.on('drain', more).resume()
  more()
}

export interface SshPlan {
  manner: Manner
  kind: string
  /** In words. */
  shown: object
}

/** What the server will do, channel after channel. */
export function sshPlan(dice: Dice): SshPlan {
  if (dice.chance(0.06)) {
    const door = dice.pick(Object.keys(doors))
    return { manner: { door: (socket) => doors[door]!(socket, dice) }, kind: 'door', shown: { door } }
  }
  // Each has chance of its own: in which order they are done is the host's matter.
  const act = () => dice.pick(acts)(diceOf(dice.int(2 ** 31)))
  const scripts = Array.from({ length: 8 }, () => [act(), ...dice.many(8, act)])
  const early = dice.chance(0.2) ? dice.many(4, act) : []
  let next = 0
  const manner: Manner = {
    channel: (line) => perform(scripts[next++ % scripts.length]!, line),
    ...(early.length > 0 && { early: (line: Line) => perform(early, line) }),
  }
  return { manner, kind: 'channels', shown: { early: namesOf(early), channels: scripts.map(namesOf) } }
}

const namesOf = (script: Act[]): string => script.map(({ name }) => name).join(', ')

/** As long as its own end is open. */
function perform(script: Act[], line: Line): void {
  for (const act of script) {
    if (socketOf(line.client).destroyed) return
    act.do(line)
  }
}
