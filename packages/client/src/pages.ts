// Pages of lists.

/** The cursor in `Link: <…>; rel="next"`. Only the cursor: a link must not send the credential elsewhere. */
export function nextCursor(link: string | null): string | undefined {
  const target = link?.match(/<([^>]*)>\s*;[^<]*\brel="?next"?/i)?.[1]
  if (target === undefined || !URL.canParse(target, 'http://localhost')) return undefined
  return new URL(target, 'http://localhost').searchParams.get('cursor') ?? undefined
}
