// Guarantee: on tables of 100,000 desktops and 1,000,000 operations, no statement of a route, an operation or a reconciler
// scans a large table. The statements are those that Postgres has run, not a list kept by hand.
import { statSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { fill } from '../bench/scale/fill.ts'
import { ownPostgres } from '../integration/parts/own-postgres.ts'
import { query } from '../setup/postgres.ts'
import { Stack } from '../stack.ts'
import { exerciseAdmin, exerciseCustomer } from './exercises.ts'
import { explainEverything, nodesOf, type Plan, type PlanNode, plansIn, rowsRead } from './plan-log.ts'

const desktops = 100_000
const operationsEach = 10
/** A table with this many rows is large. */
const largeRows = 10_000
/** The most that a statement may read of a large table without a reason below. A page has 1,000 rows. */
const readRowsMax = 5_000
/** The planner chooses one plan for all values of a prepared statement after five runs. */
const times = 7

/** Statements that may read a whole table, each with its reason. The key is a part of the statement's text. */
const mayReadAll: Record<string, string> = {
  'left join reservations r on r.host_id = h.id group by h.id': 'operators list all hosts with what each holds',
  'int[] as each from desktops d': 'an organisation counts its own desktops',
}

/** A statement that scans: it must be found. */
const canary = `select count(*) as canary from operations where error = 'none'`

let own: Awaited<ReturnType<typeof ownPostgres>>
let stack: Stack
let plans: Plan[]
let large: Set<string>
let used: Set<string>

beforeAll(async () => {
  own = await ownPostgres()
  stack = await Stack.start({ databaseServer: own.postgres.url, controlPlane: { maxDesktopsPerOrg: 1_000_000 } })
  await fill((text, values) => stack.database.rows(text, values), stack.org.id, { desktops, operationsEach })
  large = new Set(
    (
      await stack.database.rows<{ name: string }>(
        `select relname as name from pg_class where relkind = 'r' and reltuples >= ${largeRows}`,
      )
    ).map(({ name }) => name),
  )
  for (const [name, value] of Object.entries(explainEverything))
    await stack.database.rows(`alter system set ${name} = '${value}'`)
  await stack.database.rows('select pg_reload_conf()')
  const from = statSync(own.postgres.logFile).size
  // Its sessions are new ones; a new term runs every reconciler.
  await stack.restartControlPlane()
  const operatorKey = await stack.replica.parts.principals.createOperatorKey('exercises')
  for (let time = 0; time < times; time++) {
    used = await exerciseCustomer(stack)
    await exerciseAdmin(stack, operatorKey)
  }
  await stack.restartAgent()
  await stack.endTerm()
  await stack.settle()
  await query(stack.database.url, canary)
  plans = plansIn(own.postgres.logFile, from)
}, 600_000)

afterAll(async () => {
  await stack?.[Symbol.asyncDispose]()
  await own?.[Symbol.asyncDispose]()
})

test('the tables that grow with desktops and operations are large', () => {
  expect([...large].sort()).toEqual(
    expect.arrayContaining(['desktops', 'generations', 'operations', 'reservations', 'usage_intervals']),
  )
})

test('every customer route is exercised', async () => {
  const { paths } = (await stack.api('GET', '/v1/openapi.json')).json as { paths: Record<string, object> }
  const routes = Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => `${method.toUpperCase()} ${path}`),
  )
  expect(routes.filter((route) => !used.has(route))).toEqual([])
})

test('a scan of a large table is noticed', () => {
  expect(plans.some((plan) => plan['Query Text'] === canary && nodesOf(plan.Plan).some(isScan))).toBe(true)
})

test('no statement scans a large table', () => {
  expect(faults(isScan)).toEqual([])
})

test('no statement reads much of a large table', () => {
  expect(faults((node) => rowsRead(node) > readRowsMax)).toEqual([])
})

function isScan(node: PlanNode): boolean {
  return node['Node Type'].endsWith('Seq Scan') && large.has(node['Relation Name'] ?? '')
}

/** Each statement once that has such a node on a large table, and what the node does. */
function faults(isFault: (node: PlanNode) => boolean): string[] {
  const found = plans.flatMap((plan) => {
    const text = plan['Query Text'].replaceAll(/\s+/g, ' ')
    if (text === canary) return []
    if (Object.keys(mayReadAll).some((part) => text.includes(part))) return []
    return nodesOf(plan.Plan)
      .filter((node) => large.has(node['Relation Name'] ?? '') && isFault(node))
      .map((node) => `${node['Node Type']} on ${node['Relation Name']}, ${rowsRead(node)} rows: ${text}`)
  })
  return [...new Map(found.map((fault) => [fault.replace(/\d+ rows/, ''), fault])).values()]
}
