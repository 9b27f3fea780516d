// What a desktop's owner asks of it while its guest is hostile: commands and files, several at once.
import type { Dice } from '../dice.ts'
import type { Answer, Desk } from './stage.ts'

const path = '/files/srv/x'
const exec = (command: string | string[], more = {}) => JSON.stringify({ command, timeout_secs: 1, ...more })

const wishes: Record<string, (desk: Desk, dice: Dice) => Promise<Answer>> = {
  exec: ({ ask }) => ask('POST', '/exec', exec('true')),
  'exec with input': ({ ask }, dice) =>
    ask('POST', '/exec', exec('cat', { stdin: 'x'.repeat(dice.pick([1, 200_000])) })),
  'exec of a list': ({ ask }) => ask('POST', '/exec', exec(['/bin/true'])),
  'long exec': ({ ask }) => ask('POST', '/exec', exec(`: ${'#'.repeat(120_000)}`)),
  put: ({ ask }, dice) => ask('PUT', path, Buffer.alloc(dice.pick([0, 10, 300_000]), 'x')),
  get: ({ ask }) => ask('GET', path),
}

/** Asks for some of it at once. */
export async function askedOf(desk: Desk, dice: Dice): Promise<Record<string, Answer>> {
  const chosen = Object.entries(wishes).filter(() => dice.chance(0.5))
  const asked = chosen.length > 0 ? chosen : [['exec', wishes.exec!] as const]
  return Object.fromEntries(await Promise.all(asked.map(async ([name, ask]) => [name, await ask(desk, dice)] as const)))
}
