// The plans that `auto_explain` writes to Postgres' log, as JSON: of every statement that ran, triggers' own ones too. Knows
// no table.
import { readFileSync } from 'node:fs'

export interface PlanNode {
  'Node Type': string
  'Relation Name'?: string
  'Index Name'?: string
  'Actual Rows'?: number
  'Actual Loops'?: number
  'Rows Removed by Filter'?: number
  Plans?: PlanNode[]
}

export interface Plan {
  'Query Text': string
  Plan: PlanNode
}

/** Settings that have every new session log the plan of each statement. They take effect with `pg_reload_conf()`. */
export const explainEverything = {
  session_preload_libraries: 'auto_explain',
  'auto_explain.log_min_duration': '0',
  'auto_explain.log_format': 'json',
  'auto_explain.log_nested_statements': 'on',
  'auto_explain.log_analyze': 'on',
  'auto_explain.log_timing': 'off',
  // A value of a statement is nothing that a log should hold.
  'auto_explain.log_parameter_max_length': '0',
}

/** The plans in a log, in order. A plan's lines begin with a tab; the line before them ends with `plan:`. */
export function plansIn(logFile: string, from = 0): Plan[] {
  const lines = readFileSync(logFile, 'utf8').slice(from).split('\n')
  return lines.flatMap((line, at) => {
    if (!/duration: .* plan:$/.test(line)) return []
    const end = lines.findIndex((next, index) => index > at && !next.startsWith('\t'))
    return JSON.parse(lines.slice(at + 1, end < 0 ? undefined : end).join('\n')) as Plan
  })
}

/** The plan's nodes, from the top. */
export const nodesOf = (node: PlanNode): PlanNode[] => [node, ...(node.Plans ?? []).flatMap(nodesOf)]

/** Rows of the node's table that it read, in all its loops. */
export function rowsRead(node: PlanNode): number {
  const { 'Actual Rows': rows = 0, 'Actual Loops': loops = 1, 'Rows Removed by Filter': removed = 0 } = node
  return Math.round((rows + removed) * loops)
}
