// A selector as a condition of SQL. The table's labels are a column of JSON.
import type { Selector, SelectorTerm } from '@dormouse/contract'

/**
 * The condition that these labels are selected. `value` adds a parameter and returns its name. A term that names a value uses the
 * index of labels, which leaves out desktops without labels.
 */
export function selected(selector: Selector, labels: string, value: (given: unknown) => string): string {
  const isIndexed = selector.some(({ is }) => is === 'in' || is === 'set')
  const terms = selector.map((term) => condition(term, labels, value))
  return [...(isIndexed ? [`${labels} <> '{}'`] : []), ...terms].join(' and ')
}

function condition({ key, is, values }: SelectorTerm, labels: string, value: (given: unknown) => string): string {
  if (is === 'set') return `${labels} ? ${value(key)}`
  if (is === 'not_set') return `not (${labels} ? ${value(key)})`
  if (is === 'not_in') return `coalesce(${labels} ->> ${value(key)} <> all(${value(values)}), true)`
  return `(${values.map((one) => `${labels} @> ${value(JSON.stringify({ [key]: one }))}`).join(' or ')})`
}
