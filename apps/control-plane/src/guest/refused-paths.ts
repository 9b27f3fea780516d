// Names the path in what a guest's file system refuses: hosts send codes. Pure.
import { factsOf, Refusal, refusals } from '@dormouse/contract'

/** Where the guest refused: the path, and where it was to go. */
export interface RefusedAt {
  path: string
  to?: string | undefined
}

const shownMaxLength = 300

export function withPath(refusal: Refusal, at: RefusedAt): Refusal {
  const { code, detail, extra } = refusal
  if (code === 'invalid_request') return asField(refusal, at)
  return factsOf(code).from === 'guest_files' ? new Refusal(code, `${named(code, at)}: ${detail}`, extra) : refusal
}

/** The first word of a host's sentence is the field that is wrong. */
function asField({ code, detail, extra }: Refusal, { to }: RefusedAt): Refusal {
  const [, field, why] = /^(path|to|owner|body) (.+)$/.exec(extra.cause ?? '') ?? []
  if (field === undefined || why === undefined || (field === 'to' && to === undefined))
    return new Refusal(code, detail, extra)
  return new Refusal(code, refusals.invalid_request.detail({ field, why }), { ...extra, field })
}

function named(code: Refusal['code'], { path, to }: RefusedAt): string {
  if (to === undefined || code === 'file_not_found') return shown(path)
  return code === 'file_exists' ? shown(to) : `${shown(path)} to ${shown(to)}`
}

/** On one line, and as JSON if it has control characters. */
function shown(path: string): string {
  const text = /\p{Cc}/u.test(path) ? JSON.stringify(path) : path
  return text.length > shownMaxLength ? `${text.slice(0, shownMaxLength).toWellFormed()}…` : text
}
