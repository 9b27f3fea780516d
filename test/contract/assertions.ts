// How a row of the table says what it expected and what it got. Knows no route.
import { isDeepStrictEqual } from 'node:util'
import type { ApiAnswer } from '../integration/parts/api.ts'

/** Holds what came to what was expected. */
export function same(what: string, came: unknown, expected: unknown): void {
  if (!isDeepStrictEqual(came, expected)) throw new Error(`${what}: expected ${shown(expected)}, came ${shown(came)}`)
}

/** Holds a value to a property that is told in words. */
export function holds(what: string, came: unknown, expected: string, isSo: boolean): void {
  if (!isSo) throw new Error(`${what}: expected ${expected}, came ${shown(came)}`)
}

/** Holds an answer to its status; hands it on. */
export function status(what: string, answer: ApiAnswer, ...expected: number[]): ApiAnswer {
  const came = `${answer.status} ${answer.text.slice(0, 300)}`
  holds(what, came, expected.join(' or '), expected.includes(answer.status))
  return answer
}

/** Holds an answer to a status and to the problem body that every refusal has. */
export function problem(what: string, answer: ApiAnswer, expected: number): ApiAnswer {
  status(what, answer, expected)
  const type = String(answer.headers['content-type']).split(';')[0]
  same(`${what}, media type`, type, 'application/problem+json')
  same(`${what}, type`, answer.json?.type, 'about:blank')
  same(`${what}, status in the body`, answer.json?.status, expected)
  for (const field of ['title', 'detail']) {
    const value = answer.json?.[field]
    holds(`${what}, ${field}`, value, 'a text', typeof value === 'string' && value !== '')
  }
  return answer
}

const shown = (value: unknown): string => (typeof value === 'string' ? value : (JSON.stringify(value) ?? 'nothing'))
