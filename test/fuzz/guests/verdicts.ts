// What is wrong with the answers that customers get while a guest is hostile. Knows no guest.
import type { Trial } from '../mode.ts'
import type { Answer } from './stage.ts'

/** Statuses that say of themselves that the service works: the guest does not. */
const honest = new Set([503, 504])

/** A file whose guest breaks off in the middle is cut off: its beginning was sent. */
const mayBeCut = 0

export function trialOf(kind: string, answers: Record<string, Answer>, shown: object, why: string[] = []): Trial {
  const all = Object.entries(answers)
  const wrong = all.flatMap(([what, { status, text }]) => {
    if (status === mayBeCut && what === 'get') return []
    return status < 500 && status > 0 ? [] : honest.has(status) ? [] : [`${what}: ${status} ${text.slice(0, 300)}`]
  })
  return {
    kind,
    came: all.map(([what, { status }]) => `${what} ${status}`),
    why: [...wrong, ...why],
    shown: { ...shown, answers },
  }
}
