// Environment variables that were meant as settings but are not: a misspelt one would be ignored silently. Pure.
import { nearest, suggestion } from './nearest.ts'

/**
 * A sentence for each variable that is set, begins like the program's own (`DORMOUSE_`, or that misspelt) and is not among
 * `known`. `others` are variables of programs that share its environment.
 */
export function unknownVariables(
  env: Readonly<Record<string, string | undefined>>,
  known: readonly string[],
  others: readonly string[] = [],
): string[] {
  const all = new Set([...known, ...others])
  const families = new Set(known.map(family).filter((word) => word !== undefined && isShared(word, known)))
  const isOurs = (name: string) => nearest(family(name) ?? '', families as Set<string>).length > 0
  return Object.keys(env)
    .filter((name) => env[name] && !all.has(name) && isOurs(name))
    .map((name) => `${name} is not a setting of this program and is ignored${suggestion(like(name, known))}`)
}

/** The first word of a name that has several. */
const family = (name: string): string | undefined => /^([a-z]+)_/i.exec(name)?.[1]

const isShared = (word: string, known: readonly string[]): boolean =>
  known.filter((name) => name.startsWith(`${word}_`)).length > 1

/** Compared without what most names begin with, which would make all of them alike. */
function like(name: string, known: readonly string[]): string[] {
  const byRest = Map.groupBy(known, rest)
  return nearest(rest(name), byRest.keys()).flatMap((found) => byRest.get(found)!)
}

const rest = (name: string): string => name.replace(/^[a-z]+_(AGENT_)?/i, '')
