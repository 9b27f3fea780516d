// Guarantee: a test run that is killed in the middle leaves nothing running and no folder of what it started.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { pids, readLive, waitFor } from '../../scripts/ground/processes.ts'

const code = `import { Instance } from '${import.meta.dirname}/parts/instance.ts'
const { dataDir } = await Instance.start({}, ['--simulated', '1', '--no-tour'])
console.log(dataDir)`

test('an `npm start` whose test is killed ends in order, with its Postgres, its control plane and its agents', async () => {
  const words = ['--input-type=module', '-e', code]
  const child = spawn(process.execPath, words, { stdio: ['ignore', 'pipe', 'inherit'] })
  const [line] = (await once(child.stdout.setEncoding('utf8'), 'data')) as [string]
  const dataDir = line.trim()
  const its = () =>
    pids().filter((pid) => readLive(() => readFileSync(`/proc/${pid}/environ`, 'utf8'))?.includes(dataDir))
  expect(its().length).toBeGreaterThan(0)
  child.kill('SIGKILL')
  expect(await waitFor(() => its().length === 0, 60_000)).toBe(true)
  expect(await waitFor(() => !existsSync(dataDir), 30_000)).toBe(true)
})
