// A selector as a condition of SQL. The table's labels are a column of JSON.
import type { Selector, SelectorTerm } from '@dormouse/contract'

/** So many values are looked up in the index of labels. The planner needs longer for more of them than a scan takes. */
const mostIndexed = 8

/**
 * The condition that these labels are selected. `value` adds a parameter and returns its name. A term that names a few values uses
 * the index of labels, which leaves out desktops without labels.
 */
export function selected(selector: Selector, labels: string, value: (given: unknown) => string): string {
  const isLabelled = selector.some(({ is }) => is === 'in' || is === 'set')
  let left = mostIndexed
  const terms = selector.map((term) => {
    const isIndexed = term.is === 'in' && term.values.length <= left
    if (isIndexed) left -= term.values.length
    return isIndexed ? indexed(term, labels, value) : condition(term, labels, value)
  })
  return [...(isLabelled ? [`${labels} <> '{}'`] : []), ...terms].join(' and ')
}

const indexed = ({ key, values }: SelectorTerm, labels: string, value: (given: unknown) => string): string =>
  `(${values.map((one) => `${labels} @> ${value(JSON.stringify({ [key]: one }))}`).join(' or ')})`

function condition({ key, is, values }: SelectorTerm, labels: string, value: (given: unknown) => string): string {
  if (is === 'set') return `${labels} ? ${value(key)}`
  if (is === 'not_set') return `not (${labels} ? ${value(key)})`
  if (is === 'not_in') return `coalesce(${labels} ->> ${value(key)} <> all(${value(values)}), true)`
  return `${labels} ->> ${value(key)} = any(${value(values)})`
}
