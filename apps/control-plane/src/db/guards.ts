// Guards in SQL: a statement fails if it finds no row, so that what was sent behind it takes no effect. Knows no table.
import { sqlState } from './pool.ts'

/** An expression that fails if the query or the CTE of this name has no row. */
export const atLeastOne = (name: string): string => `(select 1 / count(*) from ${name})`

/** Whether this is the error of a guard: a division by zero. */
export const isGuardFailure = (error: unknown): boolean => sqlState(error) === '22012'
