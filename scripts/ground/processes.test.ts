// What other parts rely on when they name a process later.
import { spawn } from 'node:child_process'
import { mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { alive, finish, identify, processesIn, run, signal, waitFor, waitGone } from './processes.ts'

test('a process is known again until it is gone, and a later one with its pid is not taken for it', async () => {
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

test('finds the processes that work in a folder, whatever they are called', async () => {
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

test('a failing program is an error with what it said; a missing one and one that ends before it reads its input are no crash', async () => {
  await expect(run('sh', ['-c', 'echo why >&2; exit 3'])).rejects.toThrow(/\(3\): why/)
  await expect(run('/no/such/program', [])).rejects.toThrow('ENOENT')
  expect((await finish('true', [], { input: 'x'.repeat(1 << 20) })).code).toBe(0)
})

test('waiting is bounded', async () => {
  expect(await waitFor(() => false, 30)).toBeUndefined()
})
