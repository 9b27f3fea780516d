// The tour: create, wake, work, hibernate, wake, and check that nothing was lost.
import { type Client, Desktop } from '@dormouse/client'
import type { Say } from '../testbed/processes.ts'

/** Read before and after the sleep. */
const counterStart =
  'echo 0 > /run/counter; (while :; do echo $(( $(cat /run/counter) + 1 )) > /run/counter.new && mv /run/counter.new /run/counter; sleep 0.1; done) > /dev/null 2>&1 < /dev/null &'
const fileWrite = 'echo "kept by dormouse" > /root/hello.txt && sync'
const readState = 'cat /run/counter /proc/sys/kernel/random/boot_id /root/hello.txt'

interface Seen {
  counter: number
  bootId: string
  file: string
}

/** Runs a step, and prints its time and its outcome. */
export const stepper =
  (say: Say) =>
  async <T>(what: string, work: () => Promise<T>, outcome: (value: T) => string): Promise<T> => {
    const began = performance.now()
    const value = await work()
    say(`  ${what.padEnd(34)} ${((performance.now() - began) / 1_000).toFixed(2).padStart(6)} s   ${outcome(value)}`)
    return value
  }

/** Prints each step with its time. Throws if anything changed over the sleep. Leaves the desktop awake. */
export async function tour(client: Client, say: Say): Promise<Desktop> {
  const step = stepper(say)
  const desktop = await step(
    'create',
    () => Desktop.create({ client, tier: 'small' }),
    ({ id }) => id,
  )
  await step(
    'wake',
    () => desktop.wake(),
    ({ result }) => `from ${result?.resumedFrom}`,
  )
  await step(
    'start a counter in memory',
    () => run(desktop, counterStart),
    () => '',
  )
  await step(
    'write a file',
    () => run(desktop, fileWrite),
    () => '/root/hello.txt',
  )
  const before = await step(
    'read both',
    () => seen(desktop),
    ({ counter, bootId }) => `counter ${counter}, boot ${bootId.slice(0, 8)}`,
  )
  await step(
    'hibernate',
    () => desktop.hibernate(),
    () => 'memory and disk saved',
  )
  await step(
    'wake',
    () => desktop.wake(),
    ({ result }) => `from ${result?.resumedFrom}${result?.path === 'warm' ? ', which was still warm' : ''}`,
  )
  const after = await step(
    'read both again',
    () => seen(desktop),
    ({ counter, bootId }) => `counter ${counter}, boot ${bootId.slice(0, 8)}`,
  )

  if (after.counter < before.counter)
    throw new Error(`the counter went back from ${before.counter} to ${after.counter}`)
  if (after.bootId !== before.bootId) throw new Error('the guest rebooted; its memory was lost')
  if (after.file !== before.file) throw new Error('the file changed')
  say('  The counter kept counting, the guest did not reboot, and the file is there. Nothing was lost.')
  return desktop
}

/** Runs the command in the guest and returns its output. */
async function run(desktop: Desktop, command: string): Promise<string> {
  const { exitCode, stdout, stderr } = await desktop.commands.run(command)
  if (exitCode !== 0) throw new Error(`the command ${command} failed in the guest (${exitCode}): ${stderr}`)
  return stdout
}

/** What must go on, whatever happens to the desktop. */
export async function seen(desktop: Desktop): Promise<Seen> {
  const [counter, bootId, file] = (await run(desktop, readState)).trim().split('\n') as [string, string, string]
  return { counter: Number(counter), bootId, file }
}
