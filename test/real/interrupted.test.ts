// Guarantee: a test run that is killed in the middle leaves nothing running and no folder of what it started.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, lstatSync, readFileSync, realpathSync } from 'node:fs'
import { expect, test } from 'vitest'
import { pids, readLive, waitFor } from '../../scripts/testbed/processes.ts'

const instanceCode = `import { Instance } from '${import.meta.dirname}/parts/instance.ts'
const { dataDir } = await Instance.start({}, ['--simulated', '1', '--no-tour'])
console.log(dataDir)`

const stageCode = `import { Stage } from '${import.meta.dirname}/parts/agent-stage.ts'
const { libvirtd } = await Stage.start()
console.log(libvirtd.shortDir)
setInterval(() => {}, 1e6)`

/** A process that runs the code, and the first line that it prints. */
async function started(code: string) {
  const words = ['--input-type=module', '-e', code]
  const child = spawn(process.execPath, words, { stdio: ['ignore', 'pipe', 'inherit'] })
  const [line] = (await once(child.stdout.setEncoding('utf8'), 'data')) as [string]
  return { child, line: line.trim() }
}

test('an `npm start` whose test is killed ends in order, with its Postgres, its control plane and its agents', async () => {
  const { child, line: dataDir } = await started(instanceCode)
  const its = () =>
    pids().filter((pid) => readLive(() => readFileSync(`/proc/${pid}/environ`, 'utf8'))?.includes(dataDir))
  expect(its().length).toBeGreaterThan(0)
  child.kill('SIGKILL')
  expect(await waitFor(() => its().length === 0, 60_000)).toBe(true)
  expect(await waitFor(() => !existsSync(dataDir), 30_000)).toBe(true)
})

test('a stage of agents whose test is killed leaves no folder, no name of it, and nothing that is mounted', async () => {
  const { child, line: shortDir } = await started(stageCode)
  const folder = realpathSync(shortDir)
  const isMounted = () => readFileSync('/proc/self/mounts', 'utf8').includes(folder)
  expect(isMounted()).toBe(true)
  child.kill('SIGKILL')
  const left = () => [folder, shortDir].filter((path) => lstatSync(path, { throwIfNoEntry: false }))
  expect(await waitFor(() => !isMounted() && left().length === 0, 60_000)).toBe(true)
})
