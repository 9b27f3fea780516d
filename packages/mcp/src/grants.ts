// What an agent may do. A tool without its grant does not exist for the agent.

export const grants = ['see', 'use', 'power', 'create', 'destroy'] as const
/** `see` reads, `use` acts in an awake desktop, `power` wakes and hibernates. */
export type Grant = (typeof grants)[number]

/** Nothing that cannot be undone. */
export const defaultGrants: readonly Grant[] = ['see', 'use', 'power', 'create']

/** Grants from a list such as `see,use`. Throws on every other word: a misspelt one must not grant more. */
export function parseGrants(text: string): Grant[] {
  return text.split(',').map((word) => {
    const grant = grants.find((each) => each === word.trim())
    if (!grant) throw new RangeError(`"${word.trim()}" is no grant; use some of ${grants.join(', ')}`)
    return grant
  })
}
