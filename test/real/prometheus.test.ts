// Guarantee: the real Prometheus reads the control plane with its key and the agent, by the configuration that we ship; it
// accepts every rule and every query of the dashboard; and each alert fires on what it is for.
import { spawn } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { endWithUs } from '../../scripts/testbed/end-with-us.ts'
import { identify, run } from '../../scripts/testbed/processes.ts'
import { ownPostgres } from '../integration/parts/own-postgres.ts'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'

const long = process.env.DORMOUSE_TEST_LONG === '1'
const folder = join(import.meta.dirname, '../../infra/observability')

interface Panel {
  targets?: { expr: string }[]
}

test('the alert rules pass their tests', async () => {
  expect(await run('promtool', ['check', 'rules', join(folder, 'dormouse.rules.yml')])).toContain('SUCCESS')
  expect(await run('promtool', ['test', 'rules', join(folder, 'dormouse.rules.test.yml')])).toContain('SUCCESS')
})

/** Prometheus with our configuration, but with these targets and without its pauses. */
async function startPrometheus(key: string, controlPlane: string, agent: string) {
  const dir = mkdtempSync(join(tmpdir(), 'dormouse-prometheus-'))
  const config = readFileSync(join(folder, 'prometheus.yml'), 'utf8')
    .replaceAll('15s', '300ms')
    .replace('127.0.0.1:8080', new URL(controlPlane).host)
    .replace('127.0.0.1:9464', new URL(agent).host)
  writeFileSync(join(dir, 'prometheus.yml'), config)
  writeFileSync(join(dir, 'operator-key'), key, { mode: 0o600 })
  copyFileSync(join(folder, 'dormouse.rules.yml'), join(dir, 'dormouse.rules.yml'))
  await run('promtool', ['check', 'config', join(dir, 'prometheus.yml')])
  // It does not say which port it was given. No other program listens at this address.
  const address = `127.${randomInt(1, 255)}.${randomInt(256)}.${randomInt(1, 255)}:9090`
  const args = [
    `--config.file=${dir}/prometheus.yml`,
    `--storage.tsdb.path=${dir}/data`,
    `--web.listen-address=${address}`,
  ]
  const program = spawn('prometheus', args, { stdio: 'ignore' })
  const ended = once(program, 'exit')
  const release = endWithUs(identify(program.pid!)!, 'SIGKILL')
  return {
    get: async (path: string) => {
      const response = await fetch(`http://${address}/api/v1/${path}`)
      return (await response.json()) as { status: string; error?: string; data: never }
    },
    [Symbol.asyncDispose]: async () => {
      program.kill('SIGKILL')
      await ended
      release()
      rmSync(dir, { recursive: true, force: true })
    },
  }
}

// At length only: a start of everything for a setting that rarely changes.
test.runIf(long)('it scrapes a control plane and an agent, and answers what they did', async () => {
  await using server = await ownPostgres()
  const agent = { metricsListen: { host: '127.0.0.1', port: 0 } }
  await using stack = await Stack.start({ databaseServer: server.postgres.url, agent })
  await stack.desktop('awake')
  const key = await stack.replica.parts.principals.createOperatorKey('prometheus')
  await using prometheus = await startPrometheus(key, stack.url, stack.host.metricsUrl!)
  const value = async (query: string): Promise<number | undefined> => {
    const { data } = await prometheus.get(`query?query=${encodeURIComponent(query)}`).catch(() => ({ data: undefined }))
    const [first] = (data as { result: { value: [number, string] }[] } | undefined)?.result ?? []
    return first && Number(first.value[1])
  }
  await waitFor('both to be scraped', async () => (await value('sum(up{job=~"dormouse-.+"})')) === 2)
  expect(await value('sum(dormouse_operation_duration_seconds_count{kind="wake",state="succeeded"})')).toBe(1)
  expect(await value('sum(dormouse_agent_phase_duration_seconds_count{phase="booting"})')).toBe(1)
  expect(await value('max(dormouse_leader)')).toBe(1)
  await waitFor('every rule to be evaluated without an error', async () => {
    const { groups } = (await prometheus.get('rules')).data as { groups: { rules: { health: string }[] }[] }
    return groups.flatMap(({ rules }) => rules).every(({ health }) => health === 'ok')
  })
  const { panels } = JSON.parse(readFileSync(join(folder, 'dashboard.json'), 'utf8')) as { panels: Panel[] }
  const queries = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr))
  expect(queries.length).toBeGreaterThan(30)
  for (const query of queries) {
    const { status, error } = await prometheus.get(
      `query?query=${encodeURIComponent(query.replaceAll('$__rate_interval', '1m'))}`,
    )
    expect([query, status, error]).toEqual([query, 'success', undefined])
  }
})
