// Guarantee: what a test started ends with it, even if the test is killed. Nothing else does.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { alive, identify, signal, waitFor, waitGone } from './processes.ts'

/** A process that binds the given one to itself and then waits. */
async function starterOf(pid: number, started: string, folder: string) {
  const code = `import { endWithUs } from '${import.meta.dirname}/end-with-us.ts'
    endWithUs({ pid: ${pid}, started: ${JSON.stringify(started)} }, 'SIGTERM', '${folder}')
    setInterval(() => {}, 1e6)
    console.log('bound')`
  const starter = spawn(process.execPath, ['--input-type=module', '-e', code], { stdio: ['ignore', 'pipe', 'inherit'] })
  await once(starter.stdout, 'data')
  return identify(starter.pid!)!
}

test('a killed process takes with it what it bound to itself, and its folder, but no other process with the same pid', async () => {
  const folders = [1, 2].map(() => mkdtempSync(join(tmpdir(), 'dormouse-bound-')))
  const [bound, other] = [1, 2].map(() => identify(spawn('sleep', ['1000']).pid!)!) as [
    ReturnType<typeof identify> & object,
    ReturnType<typeof identify> & object,
  ]
  const starters = await Promise.all([
    starterOf(bound.pid, bound.started, folders[0]!),
    starterOf(other.pid, `${other.started}0`, folders[1]!),
  ])
  expect(alive(bound)).toBe(true)
  for (const starter of starters) signal(starter, 'SIGKILL')
  expect(await waitGone([bound], 30_000)).toBe(true)
  expect(await waitFor(() => !folders.some((folder) => existsSync(folder)), 30_000)).toBe(true)
  expect(alive(other)).toBe(true)
  signal(other, 'SIGKILL')
})
