// The response to a batch, from what its host answered, and the refusals of what it cannot do. Pure.
import {
  type InputJson,
  type InputRefusal,
  type InputResult,
  inputMaxMs,
  refusals,
  refuse,
  refuseField,
  type SeenScreen,
  type Size,
} from '@dormouse/contract'

type Done = Extract<InputResult, { outcome: string }>

export const outcomeOf = ({ outcome, performed, reason, seen }: Done): InputJson => ({
  performed,
  outcome,
  reason,
  screen: seen && screenOf(seen),
  pointer: seen?.pointer ?? null,
  settled: seen?.settled ?? null,
  changed: seen?.changed ?? null,
  settle_ms: seen?.settled == null ? null : seen.settleMs,
  screenshot: null,
})

export const screenOf = ({ width, height, sequence }: SeenScreen): NonNullable<InputJson['screen']> => ({
  width,
  height,
  sequence,
})

/** It may have done all, some or nothing. It is never done again under the same key. */
export const unknownOutcome = (reason: string): InputJson => ({
  ...{ performed: null, outcome: 'unknown', reason, screen: null, pointer: null },
  ...{ settled: null, changed: null, settle_ms: null, screenshot: null },
})

/** Throws what a batch is refused with, before its first event. */
export function refuseInput({ why, index, character, screen, takesMs }: InputRefusal): never {
  const field = `actions.${index ?? 0}`
  if (why === 'character') return refuseField(field, `${named(character)} is on no key of the desktop’s layout${hint}`)
  if (why === 'no_clipboard')
    return refuseField(`${field}.via`, 'the desktop’s image shares no clipboard; send `keys` or `auto`')
  if (why === 'outside' && index === null) return refuseRegion('screenshot.region', screen)
  if (why === 'outside')
    return refuseField(
      field,
      `is outside of the screen of ${screen?.width} × ${screen?.height} pixels, or of \`space\`; take a screenshot, and send coordinates in it, counted from 0`,
    )
  if (why === 'too_long')
    return refuseField(
      'actions',
      `take ${takesMs} ms, at most ${inputMaxMs} ms; split the actions and long texts over several batches, or lower \`pace_ms\``,
    )
  if (why === 'screen_changed')
    return refuse('screen_changed', refusals.screen_changed.detail({ width: screen!.width, height: screen!.height }))
  return refuse('rate_limited', 'too many batches wait for this desktop; send the next one when one has ended')
}

export const refuseRegion = (field: string, screen: Size | null): never =>
  refuseField(
    field,
    `goes beyond the screen of ${screen?.width} × ${screen?.height} pixels; x + width may be at most ${screen?.width}, and y + height at most ${screen?.height}`,
  )

const hint = ', and its image shares no clipboard, or `via` excludes it'

const named = (character: string | null): string => {
  const code = character?.codePointAt(0)?.toString(16).toUpperCase().padStart(4, '0')
  return /^[\p{L}\p{N}\p{P}\p{S}]/u.test(character ?? '') ? `"${character}" (U+${code})` : `the character U+${code}`
}
