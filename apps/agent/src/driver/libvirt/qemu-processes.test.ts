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

function qemu(name: string, script: string, program = process.execPath): ChildProcess {
  const child = spawn(program, ['-e', script, '--', '-name', `guest=${name},debug-threads=on`])
  started.push(child)
  return child
}

/**
 * The kernel makes who has forked so (CLONE_VFORK) wait for its child exactly as for a disk, and lets it go on when that
 * has ended, at the end of our input. Under another name: nobody shall take the child for the guest.
 */
const waitsUninterruptibly = `
  if (syscall(${process.arch === 'arm64' ? 220 : 56}, 0x4011, 0, 0, 0, 0) == 0) { $0 = "child"; <STDIN>; exit }
  sleep 60`

async function killed(child: ChildProcess): Promise<void> {
  const gone = once(child, 'exit')
  child.kill('SIGKILL')
  await gone
}

test('a stopped process is frozen, one that runs, one that is gone and one that never was are not', async () => {
  const name = `dormouse-test-${process.pid}`
  const child = qemu(name, 'setInterval(() => 0, 50)')
  await once(child, 'spawn')
  const activity = new QemuProcesses().activity(name)
  expect(activity.frozen()).toBe(false)
  child.kill('SIGSTOP')
  await until(() => activity.frozen())
  child.kill('SIGCONT')
  await until(() => !activity.frozen())
  await killed(child)
  expect(activity.frozen()).toBe(false)
  expect(new QemuProcesses().activity('dormouse-none').frozen()).toBe(false)
})

test('a desktop that woke in another process is as busy as that one is', async () => {
  const name = `dormouse-woken-${process.pid}`
  const activity = new QemuProcesses().activity(name)
  const busy = `require('node:fs').writeFileSync('/proc/self/comm', 'CPU 0/TCG'); for (;;) {}`
  for (let wake = 0; wake < 2; wake++) {
    const child = qemu(name, busy)
    await until(() => activity.busy(100))
    await killed(child)
  }
})

test('a guest of which something waits for the host’s disk is busy, though its processors idle, until the disk answers', async () => {
  const name = `dormouse-disk-${process.pid}`
  const activity = new QemuProcesses().activity(name)
  const child = qemu(name, waitsUninterruptibly, 'perl')
  await until(() => activity.busy(50))
  expect([await activity.idle(50), activity.frozen()]).toEqual([false, false])
  child.stdin!.end()
  await until(() => activity.idle(50))
  expect(await activity.busy(50)).toBe(false)
})
