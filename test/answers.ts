// Every answer that a test has seen, by the origin that gave it, until the stack it came from asks for them.
import type { Answered } from './secrets.ts'

const kept = new Map<string, Answered[]>()
/** What is longer is a file of a guest. */
const keptLength = 100_000

export function keepAnswer(origin: string, answer: Answered): void {
  const answers = kept.get(origin) ?? []
  kept.set(origin, answers)
  if (answer.text.length <= keptLength) answers.push(answer)
}

/** All answers of that origin; they are forgotten. */
export function answersFrom(origin: string): Answered[] {
  const answers = kept.get(origin) ?? []
  kept.delete(origin)
  return answers
}
