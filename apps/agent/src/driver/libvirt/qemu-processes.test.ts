// Guarantee: a process that was stopped from outside is told from one that runs, by the name of its domain. (Whether a
// guest is busy needs a guest: test/real/guest-faults.test.ts.)
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect, test } from 'vitest'
import { until } from '../../testing/bench.ts'
import { QemuProcesses } from './qemu-processes.ts'

test('a stopped process is frozen, one that runs, one that is gone and one that never was are not', async () => {
  const name = `dormouse-test-${process.pid}`
  const child = spawn(process.execPath, [
    '-e',
    'setInterval(() => 0, 50)',
    '--',
    '-name',
    `guest=${name},debug-threads=on`,
  ])
  await once(child, 'spawn')
  const pulse = new QemuProcesses().pulse(name)
  expect(pulse.frozen()).toBe(false)
  child.kill('SIGSTOP')
  await until(() => pulse.frozen())
  child.kill('SIGCONT')
  await until(() => !pulse.frozen())
  const gone = once(child, 'exit')
  child.kill('SIGKILL')
  await gone
  expect(pulse.frozen()).toBe(false)
  expect(new QemuProcesses().pulse('dormouse-none').frozen()).toBe(false)
})
