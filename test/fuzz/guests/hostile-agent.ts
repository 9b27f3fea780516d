// A guest agent that lies: what libvirt passes on of it, and what libvirt reports if it sends nothing or breaks. The same dice
// make the same replies in the same order.
import { setTimeout as sleep } from 'node:timers/promises'
import { errorCode } from '@dormouse/node-libvirt'
import { Refusal } from '@dormouse/node-libvirt/testing'
import type { Dice } from '../dice.ts'
import { value } from '../http/words.ts'
import type { Manner } from './actor.ts'

type Answer = () => Promise<string>

const returned = (what: unknown): string => JSON.stringify({ return: what })
const base64 = (text: string | Buffer) => Buffer.from(text).toString('base64')

const numbers = [0, 1, -1, 2 ** 31, 2 ** 53, 1e308, -0.5]
const large = 3 * 1024 * 1024

/** Words of libvirt's, and what a guest put into them. */
const refusals: readonly [number, string][] = [
  [errorCode.agentUnresponsive, 'Guest agent is not responding: QEMU guest agent is not connected'],
  [errorCode.agentUnresponsive, 'Guest agent is not responding: Guest agent not available for now'],
  [errorCode.agentUnsynced, 'guest agent replied with wrong id'],
  [errorCode.argumentUnsupported, 'QEMU guest agent is not configured'],
  [errorCode.operationInvalid, 'domain is not running'],
  [errorCode.internalError, "unable to execute QEMU agent command 'guest-exec': No space left on device"],
  [errorCode.internalError, `unable to execute QEMU agent command 'guest-exec': ${'x'.repeat(10_000)}`],
  [errorCode.internalError, "unable to execute QEMU agent command 'guest-file-open': \0\u202e: Is a directory"],
  [errorCode.internalError, 'cannot parse json'],
  [9_999, 'x'],
]

const answers: readonly ((dice: Dice) => [string, Answer])[] = [
  (dice) => {
    const text = dice.pick(['', 'null', '[]', '7', '{', '"return"', '{"return"', '['.repeat(200_000), '\0'])
    return [`text ${text.slice(0, 10)}`, async () => text]
  },
  (dice) => {
    const what = value(dice)
    return ['any value', async () => returned(what)]
  },
  (dice) => {
    const pid = dice.pick(numbers)
    return [`process ${pid}`, async () => returned({ pid })]
  },
  (dice) => {
    const handle = dice.pick(numbers)
    return [`handle ${handle}`, async () => returned(handle)]
  },
  (dice) => {
    const status = { exited: dice.chance(0.8), exitcode: dice.pick([0, 97, 255, ...numbers]), ...output(dice) }
    return ['a status', async () => returned(status)]
  },
  (dice) => {
    const status = { exited: dice.pick([1, 'yes', null]), signal: dice.pick([9, 'KILL', -1]) }
    return ['a status that is none', async () => returned(status)]
  },
  (dice) => {
    const read = {
      count: dice.pick(numbers),
      'buf-b64': dice.pick(['', '=', base64('x'), base64(Buffer.alloc(large))]),
    }
    const eof = dice.chance(0.3)
    return ['bytes of a file', async () => returned({ ...read, eof })]
  },
  (dice) => {
    const [code, words] = dice.pick(refusals)
    return [
      `refusal ${words.slice(0, 40)}`,
      async () => {
        throw new Refusal(code, words)
      },
    ]
  },
  (dice) => {
    const ms = dice.pick([300, 1_500])
    return [
      `late by ${ms} ms`,
      async () => {
        await sleep(ms)
        return returned({ pid: 1, exited: true, exitcode: 0 })
      },
    ]
  },
]

function output(dice: Dice): object {
  const place = base64(`/x\0/y\0${dice.pick(['1', 'x', ''])}\0`)
  const data = () => dice.pick([undefined, '', '=', place, base64(dice.bytes(99)), base64(Buffer.alloc(large, 'x'))])
  return { 'out-data': data(), 'err-data': data() }
}

export interface AgentPlan {
  agent: NonNullable<Manner['agent']>
  /** In words. */
  shown: object
}

/** What it will say, call after call, and again from the beginning. */
export function agentPlan(dice: Dice): AgentPlan {
  // Whoever lies at once is not asked anything more.
  const honest = dice.pick([0, 0.5, 0.9])
  const said = Array.from({ length: 20 }, () => (dice.chance(honest) ? undefined : dice.pick(answers)(dice)))
  let next = 0
  const agent: AgentPlan['agent'] = (command, fair) => said[next++ % said.length]?.[1]() ?? fair(command)
  return { agent, shown: { says: said.map((answer) => answer?.[0] ?? 'the truth') } }
}
