// Guarantee: the rules, the dashboard and the pages name only metrics that exist, and each alert has a test and a runbook.
import { existsSync, globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { processMetrics } from '@dormouse/process/metrics'
import { expect, test } from 'vitest'

const root = join(import.meta.dirname, '../..')
const textOf = (path: string) => readFileSync(join(root, path), 'utf8')
const namesIn = (text: string) => new Set(text.match(/\b(?:dormouse|nodejs|process)_[a-z0-9_]+\b/g))

/** Of access tokens. */
const isClaim = (name: string) => ['dormouse_can', 'dormouse_select'].includes(name)

const sources = globSync('apps/*/src/**/*.ts', { cwd: root, exclude: (path) => path.endsWith('.test.ts') })
const ours = sources.flatMap((path) =>
  [...textOf(path).matchAll(/'(dormouse_[a-z0-9_]+[a-z0-9])'/g)]
    .map(([, name]) => name!)
    .filter((name) => !isClaim(name)),
)
const shared = processMetrics()
  .getMetricsAsArray()
  .map(({ name }) => name)
const known = new Set([...ours, ...shared])

const rules = textOf('infra/observability/dormouse.rules.yml')
const alerts = [...rules.matchAll(/- alert: (\w+)/g)].map(([, name]) => name!)

test.each([
  'infra/observability/dormouse.rules.yml',
  'infra/observability/dormouse.rules.test.yml',
  'infra/observability/dashboard.json',
  'docs/observability.md',
  ...globSync('docs/runbooks/*.md', { cwd: root }),
])('%s names only metrics that exist', (path) => {
  const named = [...namesIn(textOf(path))].filter((name) => !name.endsWith('_'))
  const unknown = named.filter((name) => !known.has(name) && !known.has(name.replace(/_(?:bucket|count|sum)$/, '')))
  expect(unknown).toEqual([])
})

test('every metric of ours is named in the page about them', () => {
  const page = textOf('docs/observability.md')
  const patterns = page.match(/\bdormouse_[a-z_]+_(?=…)/g) ?? []
  expect(ours.filter((name) => !page.includes(name) && !patterns.some((start) => name.startsWith(start)))).toEqual([])
})

test('every alert has a test in which it fires, a runbook that exists, and is named there', () => {
  const tests = textOf('infra/observability/dormouse.rules.test.yml')
  expect(alerts.length).toBeGreaterThan(10)
  for (const alert of alerts) {
    expect([alert, tests.includes(`alertname: ${alert}\n        exp_alerts`)]).toEqual([alert, true])
    const runbook = new RegExp(`alert: ${alert}\\n[\\s\\S]*?runbook: (\\S+)`).exec(rules)![1]!
    expect([runbook, existsSync(join(root, runbook))]).toEqual([runbook, true])
    expect([runbook, textOf(runbook)]).toEqual([runbook, expect.stringContaining(`\`${alert}\``)])
  }
})

test('names follow the conventions: base units, and a total for what only grows', () => {
  const counters = sources.flatMap((path) =>
    [...textOf(path).matchAll(/new Counter\(\{\s+name: '(\w+)'/g)].map(([, name]) => name!),
  )
  const histograms = sources.flatMap((path) =>
    [...textOf(path).matchAll(/new Histogram\(\{\s+name: '(\w+)'/g)].map(([, name]) => name!),
  )
  expect(counters.filter((name) => !name.endsWith('_total'))).toEqual([])
  expect(histograms.filter((name) => !/_(?:seconds|bytes)$/.test(name))).toEqual([])
  expect(ours.filter((name) => /_(?:ms|millis|mib|kb|minutes)(?:_|$)/.test(name))).toEqual([])
})
