// What a test puts into a guest's memory and disk, and looks at again after a sleep.
import type { Desktop } from '@dormouse/client'
import { expect } from 'vitest'

export interface Seen {
  counter: number
  bootId: string
  memoryHash: string
  fileHash: string
}

// An emulated guest is slow: random bytes are repeated, each time behind a number, and the counter starts no programs.
const set = (memoryMiB: number) => `
[ ! -e /run/counting ] || kill $(cat /run/counting)
dd if=/dev/urandom of=/root/file bs=1M count=4 2>/dev/null; sync
for n in $(seq ${memoryMiB / 4}); do echo $n; cat /root/file; done > /run/memory
rm -f /run/counter; echo 0 > /run/counter
(n=0; while :; do n=$((n + 1)); echo $n 1<> /run/counter; sleep 0.1; done) > /dev/null 2>&1 < /dev/null &
echo $! > /run/counting
`

// A CRC: an emulated guest takes several times as long for an MD5. If a counter grows while it is read, the first line counts.
const look = `head -n 1 /run/counter; cat /proc/sys/kernel/random/boot_id; crc32 /run/memory; crc32 /root/file`

/** Runs a command in the guest that must succeed; returns what it printed. */
export async function guest(desktop: Desktop, command: string): Promise<string> {
  const { exitCode, stdout, stderr } = await desktop.commands.run(command)
  expect({ exitCode, stderr }).toMatchObject({ exitCode: 0 })
  return stdout
}

/** A counter that runs, random memory (a multiple of 4 MiB), 4 MiB of random file. */
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
