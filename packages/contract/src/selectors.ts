// Selectors of desktops by their labels, such as `team=qa,run!=42,env in (a,b),owner`: the grammar, and what each matches.
// Pure: knows no database.

export type Labels = Readonly<Record<string, string>>

/** One condition. `values` has one value or more for `in` and `not_in`, and none for the others. */
export interface SelectorTerm {
  key: string
  is: 'in' | 'not_in' | 'set' | 'not_set'
  values: string[]
}

/** All terms must hold. There is at least one. */
export type Selector = readonly SelectorTerm[]

export const labelKeyMaxLength = 63
export const labelValueMaxLength = 255
export const labelsMax = 32
export const selectorMaxLength = 2_000
const termsMax = 32
const tooLong = `must have at most ${selectorMaxLength} characters`

export const labelKeyPattern = /^[A-Za-z0-9](?:[A-Za-z0-9._/-]{0,61}[A-Za-z0-9])?$/

/** Why a text is no selector, and where: the number of the character, from 1. */
export class SelectorError extends Error {
  override readonly name = 'SelectorError'
}

/** Reads a selector. Throws `SelectorError`. */
export function parseSelector(text: string): Selector {
  return new Reader(text).selector()
}

/** Whether a desktop with these labels is selected. */
export const matches = (selector: Selector, labels: Labels): boolean =>
  selector.every(({ key, is, values }) => {
    const value = Object.hasOwn(labels, key) ? labels[key] : undefined
    if (is === 'set') return value !== undefined
    if (is === 'not_set') return value === undefined
    const isAmong = value !== undefined && values.includes(value)
    return is === 'in' ? isAmong : !isAmong
  })

/** The same selector in one form: equal selectors have equal texts. */
export const selectorText = (selector: Selector): string => [...new Set(selector.map(termText))].sort().join(',')

/** Whether `inner` has every term of `outer`, so that it selects nothing that `outer` leaves out. */
export function holdsEveryTerm(inner: Selector, outer: Selector): boolean {
  const terms = new Set(inner.map(termText))
  return outer.every((term) => terms.has(termText(term)))
}

function termText({ key, is, values }: SelectorTerm): string {
  if (is === 'set') return key
  if (is === 'not_set') return `!${key}`
  const sorted = [...new Set(values)].sort().map(valueText)
  if (sorted.length === 1) return `${key}${is === 'in' ? '=' : '!='}${sorted[0]}`
  return `${key} ${is === 'in' ? 'in' : 'notin'} (${sorted.join(',')})`
}

const plainValue = /^[^\s,()"=!]*$/

const valueText = (value: string): string =>
  plainValue.test(value) ? value : `"${value.replaceAll(/["\\]/g, String.raw`\$&`)}"`

class Reader {
  readonly #text: string
  #at = 0

  constructor(text: string) {
    this.#text = text
  }

  selector(): Selector {
    if (this.#text.length > selectorMaxLength) this.#fail(tooLong)
    const unseen = /\p{C}/u.exec(this.#text)
    if (unseen) this.#fail('expected printable characters only', unseen.index)
    const terms = [this.#term()]
    while (this.#takes(',')) terms.push(this.#term())
    this.#skip()
    if (this.#at < this.#text.length) this.#fail('expected `,` or the end')
    if (terms.length > termsMax) this.#fail(`must have at most ${termsMax} terms`)
    // Its one form is stored and sent, and read again: that may be longer, by a space before each bracket.
    if (selectorText(terms).length > selectorMaxLength) this.#fail(tooLong)
    return terms
  }

  #term(): SelectorTerm {
    if (this.#takes('!')) return { key: this.#key(), is: 'not_set', values: [] }
    const key = this.#key()
    if (this.#takes('!=')) return { key, is: 'not_in', values: [this.#value()] }
    if (this.#takes('==') || this.#takes('=')) return { key, is: 'in', values: [this.#value()] }
    if (this.#takesWord('in')) return { key, is: 'in', values: this.#values() }
    if (this.#takesWord('notin')) return { key, is: 'not_in', values: this.#values() }
    return { key, is: 'set', values: [] }
  }

  #key(): string {
    this.#skip()
    const [key = ''] = /^[A-Za-z0-9._/-]*/.exec(this.#text.slice(this.#at))!
    if (!labelKeyPattern.test(key))
      this.#fail(`expected a label's key, of 1 to ${labelKeyMaxLength} letters, digits, .-_/`)
    this.#at += key.length
    return key
  }

  #values(): string[] {
    if (!this.#takes('(')) this.#fail('expected `(`')
    const values = [this.#value()]
    while (this.#takes(',')) values.push(this.#value())
    if (!this.#takes(')')) this.#fail('expected `,` or `)`')
    return values
  }

  /** A value with a space, a comma, a bracket, `=`, `!` or a quotation mark is written in quotation marks. */
  #value(): string {
    this.#skip()
    if (this.#text[this.#at] === '"') return this.#quoted()
    const [value = ''] = /^[^\s,()"=!]*/.exec(this.#text.slice(this.#at))!
    this.#at += value.length
    return value
  }

  #quoted(): string {
    const [whole, inner] = /^"((?:[^"\\]|\\["\\])*)"/.exec(this.#text.slice(this.#at)) ?? []
    if (whole === undefined) this.#fail('expected a value in quotation marks, with `\\"` for one inside')
    this.#at += whole.length
    return inner!.replaceAll(/\\(["\\])/g, '$1')
  }

  #takes(sign: string): boolean {
    this.#skip()
    if (!this.#text.startsWith(sign, this.#at)) return false
    this.#at += sign.length
    return true
  }

  #takesWord(word: string): boolean {
    this.#skip()
    if (!new RegExp(`^${word}(?=[\\s(]|$)`).test(this.#text.slice(this.#at))) return false
    this.#at += word.length
    return true
  }

  #skip(): void {
    while (/\s/.test(this.#text[this.#at] ?? '')) this.#at++
  }

  #fail(why: string, at = this.#at): never {
    throw new SelectorError(`${why}, at character ${at + 1}`)
  }
}
