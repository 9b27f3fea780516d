// Guarantee: a process that was stopped from outside is told from one that runs, and a busy one is seen to be, by the name
// of its domain, also when that has another process than before. (With guests: test/real/guest-faults.test.ts.)
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { afterEach, expect, test } from 'vitest'
import { until } from '../../testing/bench.ts'
import { QemuProcesses } from './qemu-processes.ts'

const started: ChildProcess[] = []
afterEach(() => {
  for (const child of started.splice(0)) child.kill('SIGKILL')
})

function qemu(name: string, script: string): ChildProcess {
  const child = spawn(process.execPath, ['-e', script, '--', '-name', `guest=${name},debug-threads=on`])
  started.push(child)
  return child
}

async function killed(child: ChildProcess): Promise<void> {
  const gone = once(child, 'exit')
  child.kill('SIGKILL')
  await gone
}

test('a stopped process is frozen, one that runs, one that is gone and one that never was are not', async () => {
  const name = `dormouse-test-${process.pid}`
  const child = qemu(name, 'setInterval(() => 0, 50)')
  await once(child, 'spawn')
  const pulse = new QemuProcesses().pulse(name)
  expect(pulse.frozen()).toBe(false)
  child.kill('SIGSTOP')
  await until(() => pulse.frozen())
  child.kill('SIGCONT')
  await until(() => !pulse.frozen())
  await killed(child)
  expect(pulse.frozen()).toBe(false)
  expect(new QemuProcesses().pulse('dormouse-none').frozen()).toBe(false)
})

test('a desktop that woke in another process is as busy as that one is', async () => {
  const name = `dormouse-woken-${process.pid}`
  const pulse = new QemuProcesses().pulse(name)
  const busy = `require('node:fs').writeFileSync('/proc/self/comm', 'CPU 0/TCG'); for (;;) {}`
  for (let wake = 0; wake < 2; wake++) {
    const child = qemu(name, busy)
    await until(() => pulse.busy(100))
    await killed(child)
  }
})
