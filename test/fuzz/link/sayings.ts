// What nobody should say over a link: frames by kind, and payloads of calls, events and answers in which something is wrong.
// Pure: the same dice say the same.
import { newId } from '@dormouse/contract'
import type { Dice } from '../dice.ts'
import { spoilt, text, value } from '../http/words.ts'

/** More closes the socket before it is a frame. */
const largestFrame = 4 * 1024 * 1024

const types = ['call', 'reply', 'refused', 'failed', 'cancel', 'event']

/** A frame, or what is taken for none; `due` is the number that the other side waits for. */
export function frame(dice: Dice, due: number): string | Buffer {
  const whole = {
    n: due,
    type: dice.pick(types),
    name: 'host.hello',
    to: 1,
    code: 'no_room',
    detail: 'x',
    incident: 'x',
  }
  const forms: (() => string | Buffer)[] = [
    () => JSON.stringify(spoilt(whole, dice)),
    () => JSON.stringify({ ...whole, n: dice.pick([0, -1, due + 1, due - 1, 2 ** 53, 1.5, 'x', null]) }),
    () => JSON.stringify({ ...whole, name: 'A'.repeat(dice.pick([199, 201, 100_000])) }),
    () => JSON.stringify({ ...whole, detail: 'B'.repeat(dice.pick([3_999, 4_001, 1_000_000])) }),
    () => JSON.stringify({ ...whole, payload: value(dice) }),
    () => JSON.stringify({ n: due, type: 'call', name: 'A'.repeat(largestFrame - 40) }),
    () => JSON.stringify({ n: due, type: 'call', name: 'x'.repeat(200), requestId: 'y'.repeat(200) }),
    () => `{"n":${due},"type":"event","name":"x","payload":${'['.repeat(50_000)}${']'.repeat(50_000)}}`,
    () => JSON.stringify(value(dice)),
    () => JSON.stringify(whole).slice(0, dice.int(60)),
    () => dice.bytes(200),
    () => text(dice),
  ]
  return dice.pick(forms)()
}

/** The payload, whole or with something else in one or two places. */
export function nearly(dice: Dice, payload: unknown): unknown {
  if (dice.chance(0.3)) return payload
  const once = spoilt(payload, dice)
  return dice.chance(0.3) ? spoilt(once, dice) : once
}

/** An id that may or may not be somebody's. */
export const anId = (dice: Dice, known: readonly string[]): string =>
  known.length > 0 && dice.chance(0.7) ? dice.pick(known) : newId()

/** Notes of a channel, and bytes that nobody granted. */
export function noise(dice: Dice): string | Buffer {
  return dice.pick<() => string | Buffer>([
    () => '{"credit":1048576}',
    () => '{"end":true}',
    () => JSON.stringify({ credit: value(dice) }),
    () => JSON.stringify({ refused: { code: text(dice), detail: 'C'.repeat(100_000) } }),
    () => JSON.stringify({ refused: value(dice) }),
    () => JSON.stringify(value(dice)),
    () => dice.bytes(5_000),
    () => Buffer.alloc(2_000_000),
  ])()
}
