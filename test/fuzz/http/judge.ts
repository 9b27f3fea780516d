// What is wrong with what came back for an input. Knows the contract of answers, and no server.
import { problemJson } from '@dormouse/contract'
import type { AnswerChecker } from '../../openapi.ts'
import type { Input } from './inputs.ts'
import type { Answer, Outcome } from './wire.ts'

/** Statuses that say of themselves that the service works. */
const honest = new Set([501, 503, 504])

/** In sentences; none if all is well. */
export function faultsOf(input: Input, { answers, rest, stuck }: Outcome, checker: AnswerChecker): string[] {
  const found = answers.flatMap((answer) => [...faultsOfAnswer(answer), ...undocumented(input, answer, checker)])
  if (stuck) found.push('the connection was never closed')
  if (input.asked && answers.length !== 1) found.push(`${answers.length} answers to one request; then: ${rest}`)
  if (rest !== '' && !rest.startsWith('HTTP/1.1 ')) found.push(`what came is not HTTP: ${rest}`)
  return found
}

function faultsOfAnswer({ status, headers, text }: Answer): string[] {
  if (status >= 500 && !honest.has(status)) return [`${status}: ${text}`]
  // Whether it is ready is told to machines that read no problems.
  if (status < 400 || isReadiness(text)) return []
  const found: string[] = []
  if (!headers['x-request-id']) found.push(`${status} without x-request-id`)
  if (headers['content-type'] !== 'application/problem+json')
    found.push(`${status} is ${headers['content-type']}: ${text}`)
  if (text !== '' && problemOf(text)?.status !== status) found.push(`${status} is no problem: ${text}`)
  return found
}

const isReadiness = (text: string): boolean => text.startsWith('{"status":"not ready"')

function problemOf(text: string): { status: number } | undefined {
  try {
    return problemJson.parse(JSON.parse(text))
  } catch {
    return undefined
  }
}

const undocumented = ({ asked }: Input, answer: Answer, checker: AnswerChecker): string[] =>
  asked ? checker.complaints({ ...asked, ...answer }) : []
