// What a misspelt name probably means: every message that refuses an unknown name suggests by this.

const longest = 40
/** Parts of names such as `image_version` are found by this many characters. */
const shortestPart = 3

/** Up to three of the known names that are most like the given one, the best first. Case, `_`, `-` and spaces do not count. */
export function nearest(given: string, known: Iterable<string>): string[] {
  const plain = flat(given.slice(0, longest))
  const most = Math.max(1, Math.floor(plain.length / 3))
  const scored = Array.from(known, (name) => ({ name, distance: likeness(plain, flat(name), most) }))
    .filter(({ distance }) => distance <= most)
    .sort((a, b) => a.distance - b.distance)
  return [...new Set(scored.map(({ name }) => name))].slice(0, 3)
}

/** The end of a message about an unknown name, such as `; did you mean "name"?`; empty if nothing is like it. */
export function didYouMean(given: string, known: Iterable<string>): string {
  return suggestion(nearest(given, known))
}

/** The same of names that were found already. */
export function suggestion(names: readonly string[]): string {
  const quoted = [...new Set(names)].map((name) => `"${name}"`)
  return quoted.length > 0 ? `; did you mean ${quoted.join(' or ')}?` : ''
}

const flat = (name: string): string => name.toLowerCase().replaceAll(/[_\s-]/g, '')

/** Whether it is the name without its vowels, and some more letters: `cmd` of `command`. */
const abbreviates = (given: string, name: string): boolean => {
  let at = 0
  for (const letter of name) if (letter === given[at]) at++
  return given.length >= shortestPart && given[0] === name[0] && at === given.length && !/.[aeiou]/.test(given)
}

/**
 * The distance; a name that begins with the other one, or whose letters the given one leaves out, comes after those with one
 * misspelling.
 */
function likeness(given: string, name: string, most: number): number {
  const [short, long] = given.length < name.length ? [given, name] : [name, given]
  const part = short.length >= shortestPart && long.startsWith(short)
  const by = distance(given, name)
  return part || abbreviates(given, name) ? Math.min(by, Math.min(part ? 2 : 1, most)) : by
}

/** How many characters to add, drop, change or swap with their neighbour (optimal string alignment). */
function distance(a: string, b: string): number {
  let before: number[] = []
  let row = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 0; i < a.length; i++) {
    const next = [i + 1]
    for (let j = 0; j < b.length; j++) {
      const swapped = i > 0 && j > 0 && a[i] === b[j - 1] && a[i - 1] === b[j]
      const changed = row[j]! + (a[i] === b[j] ? 0 : 1)
      next.push(Math.min(row[j + 1]! + 1, next[j]! + 1, changed, swapped ? before[j - 1]! + 1 : changed))
    }
    before = row
    row = next
  }
  return row[b.length]!
}
