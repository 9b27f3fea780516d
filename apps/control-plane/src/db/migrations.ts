// The migration files: plain SQL, read in order. Knows no database.
import { readdirSync, readFileSync } from 'node:fs'
import { release } from '@dormouse/process'

export interface Migration {
  /** The file's name, under which it is recorded once it is applied. */
  name: string
  sql: string
  /** Its first line declares that it runs as one statement, outside any transaction. */
  outside: boolean
  /** The oldest release that may change anything once this is applied; by default the one that brings it. */
  servesFrom: number[]
  /** The index that it builds concurrently. An interrupted build leaves an invalid index behind. */
  index: string | undefined
}

export const migrationsFolder = new URL('./migrations/', import.meta.url)

const mark = /^-- outside a transaction\b/
const serves = /^-- serves from (\d+\.\d+\.\d+)$/m
const builds = /^\s*create\s+(?:unique\s+)?index\s+concurrently\s+(?:if\s+not\s+exists\s+)?([a-z0-9_]+)\s+on\b/im

/** A version as a number that can be compared, in Postgres too: `0.12.1` is [0, 12, 1]. */
export const releaseOf = (version: string): number[] => version.split('-', 1)[0]!.split('.').map(Number)

export const ownRelease = releaseOf(release.version)

/** All files of the folder, in the order of their names. */
export function readMigrations(folder: URL): Migration[] {
  const names = readdirSync(folder).filter((file) => file.endsWith('.sql'))
  return names.sort().map((name) => migrationOf(name, readFileSync(new URL(name, folder), 'utf8')))
}

function migrationOf(name: string, sql: string): Migration {
  const outside = mark.test(sql)
  const from = serves.exec(sql)?.[1]
  return {
    name,
    sql,
    outside,
    servesFrom: from ? releaseOf(from) : ownRelease,
    index: outside ? builds.exec(sql)?.[1] : undefined,
  }
}
