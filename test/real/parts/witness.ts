// What a test puts into a guest's memory and disk, and looks at again after a sleep.
import type { Desktop } from '@dormouse/client'
import { expect } from 'vitest'

export interface Seen {
  counter: number
  bootId: string
  memoryHash: string
  fileHash: string
}

const set = (memoryMiB: number) => `
dd if=/dev/urandom of=/run/memory bs=1M count=${memoryMiB} 2>/dev/null
dd if=/dev/urandom of=/root/file bs=1M count=4 2>/dev/null; sync
echo 0 > /run/counter
(while :; do echo $(( $(cat /run/counter) + 1 )) > /run/counter.new; mv /run/counter.new /run/counter; sleep 0.1; done) > /dev/null 2>&1 < /dev/null &
`

// MD5: an emulated guest takes several times as long for a SHA-256, and nobody here forges memory.
const look = `cat /run/counter /proc/sys/kernel/random/boot_id; md5sum < /run/memory; md5sum < /root/file`

/** Runs a command in the guest that must succeed; answers what it printed. */
export async function guest(desktop: Desktop, command: string): Promise<string> {
  const { exitCode, stdout, stderr } = await desktop.commands.run(command)
  expect({ exitCode, stderr }).toMatchObject({ exitCode: 0 })
  return stdout
}

/** A counter that runs, random memory, 4 MiB of random file. */
export async function leaveWitness(desktop: Desktop, memoryMiB = 64): Promise<Seen> {
  await guest(desktop, set(memoryMiB))
  return lookAt(desktop)
}

export async function lookAt(desktop: Desktop): Promise<Seen> {
  const [counter, bootId, memory, file] = (await guest(desktop, look)).trim().split('\n') as [
    string,
    string,
    string,
    string,
  ]
  return { counter: Number(counter), bootId, memoryHash: memory, fileHash: file }
}

/** Memory and disk are the same, and the counter has gone on. */
export async function expectKept(desktop: Desktop, before: Seen): Promise<Seen> {
  const after = await lookAt(desktop)
  expect(after).toMatchObject({ bootId: before.bootId, memoryHash: before.memoryHash, fileHash: before.fileHash })
  expect(after.counter).toBeGreaterThanOrEqual(before.counter)
  return after
}

/** Seconds between the guest's clock and ours. */
export async function clockError(desktop: Desktop): Promise<number> {
  const before = Date.now()
  const theirs = Number(await guest(desktop, 'cat /proc/uptime > /dev/null; date +%s'))
  const after = Date.now()
  // A whole second is read as its beginning.
  return Math.max(0, before / 1_000 - (theirs + 1), theirs - after / 1_000)
}
