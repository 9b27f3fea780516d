// Guarantee: a command's process group is ended by any shell, also in a guest without pkill.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { expect, test } from 'vitest'
import { killScript } from './processes.ts'

test.each([['dash'], ['bash'], ['busybox', 'sh']])('%s ends the whole group', async (program, ...args) => {
  const command = spawn('sh', ['-c', 'sleep 60 & echo; wait'], { detached: true, stdio: ['ignore', 'pipe', 'ignore'] })
  // Both processes hold the pipe.
  const closed = once(command.stdout, 'close')
  const ended = once(command, 'exit')
  await once(command.stdout, 'data')
  const script = `pkill() { :; }; ${killScript(command.pid!)}`
  expect(spawnSync(program, [...args, '-c', script], { encoding: 'utf8' })).toMatchObject({ status: 0, stderr: '' })
  expect([await ended, await closed]).toEqual([[null, 'SIGKILL'], [false]])
})
