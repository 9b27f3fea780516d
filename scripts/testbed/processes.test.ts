// Guarantee: a process is identified beyond its pid, and no program that we run can make us wait forever or crash.
import { spawn } from 'node:child_process'
import { mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { alive, finish, identify, processesIn, run, signal, waitFor, waitGone } from './processes.ts'

test('a process is identified until it ends, and not confused with a later one of the same pid', async () => {
  const child = spawn('sleep', ['1000'])
  const identity = identify(child.pid!)!
  expect(alive(identity)).toBe(true)
  expect(alive({ ...identity, started: 'another' })).toBe(false)
  signal({ ...identity, started: 'another' }, 'SIGKILL')
  expect(alive(identity)).toBe(true)
  signal(identity, 'SIGKILL')
  expect(await waitGone([identity], 30_000)).toBe(true)
  signal(identity, 'SIGKILL')
})

test('finds the processes whose working directory is a folder', async () => {
  const folder = mkdtempSync(join(realpathSync(tmpdir()), 'dormouse-cwd-'))
  const child = spawn('sleep', ['1000'], { cwd: folder })
  try {
    expect(await waitFor(() => processesIn(folder).length === 1, 30_000)).toBe(true)
    expect(processesIn(folder)[0]?.pid).toBe(child.pid)
  } finally {
    child.kill('SIGKILL')
    rmSync(folder, { recursive: true })
  }
})

test('a failing program throws with its stderr; a missing one throws too, and one that reads no input does not crash us', async () => {
  await expect(run('sh', ['-c', 'echo why >&2; exit 3'])).rejects.toThrow(/\(3\): why/)
  await expect(run('/no/such/program', [])).rejects.toThrow('ENOENT')
  expect((await finish('true', [], { input: 'x'.repeat(1 << 20) })).code).toBe(0)
})

test('waiting is bounded, and so is how often it asks', async () => {
  let asked = 0
  const check = () => {
    asked++
    return false
  }
  expect(await waitFor(check, 100, 50)).toBeUndefined()
  expect(asked).toBeLessThanOrEqual(4)
})
