// Commands as a control plane asks them of a host. Pure: the same dice ask the same.
import { newId } from '@dormouse/contract'
import type { Dice } from '../dice.ts'
import { text, value } from '../http/words.ts'

const spec = { vcpus: 1, memoryMiB: 256, diskGiB: 10, imageVersion: 'mini' }
const channel = 'fuzz-channel-0123456789'

interface Asked {
  name: string
  payload: unknown
}

/** A command that an honest control plane could send to an awake desktop. */
export function guestCall(dice: Dice, desktopId: string): Asked {
  const to = { desktopId, generation: 1 }
  const steps = { channel, stepTimeoutSecs: 1, queueTimeoutSecs: 1 }
  const path = dice.pick(['/tmp/x', text(dice)])
  const exec = { command: dice.pick<unknown>(['true', text(dice), ['a', text(dice)]]), timeout_secs: 1 }
  const call = dice.pick(['exec', 'exec.start', 'exec.read', 'entry.change', text(dice)])
  return dice.pick<Asked>([
    { name: 'guest.call', payload: { ...to, call: 'exec', body: exec, timeoutSecs: 1 } },
    { name: 'guest.call', payload: { ...to, call, body: value(dice), timeoutSecs: 1 } },
    {
      name: 'guest.stream',
      payload: { ...to, ...steps, stream: 'file.write', body: { path, mode: null, owner: null } },
    },
    {
      name: 'guest.stream',
      payload: { ...to, ...steps, stream: 'file.read', body: { path, range: null, if_version: null } },
    },
    { name: 'stream.open', payload: { desktopId, generation: 1, channel, claim: dice.pick(['view', 'control']) } },
  ])
}

/** A command that an honest control plane could send to a host. */
export function command(dice: Dice, desktopId: string): Asked {
  const [generation, turn] = [dice.int(4), dice.int(12)]
  const fence = { desktopId, epoch: 1, generation, turn, operationId: newId(), deadlineMs: 2_000 }
  const source = { memory: dice.pick(['allow', 'discard', 'require']), disk: dice.pick(['make', 'require']) }
  const order = { desktopId, seen: { generation, turn }, order: dice.pick(['keep', 'stop', 'remove', 'suspend']) }
  return dice.pick<Asked>([
    { name: 'desktop.ensureDisk', payload: { fence, spec, disk: 'make' } },
    { name: 'desktop.ensureAwake', payload: { fence, spec, source } },
    { name: 'desktop.ensureHibernated', payload: { fence } },
    { name: 'desktop.ensureAsleep', payload: { fence } },
    { name: 'desktop.ensureDestroyed', payload: { fence } },
    { name: 'desktop.tidy', payload: { fence } },
    { name: 'desktop.observe', payload: { desktopId } },
    { name: 'host.inventory', payload: { known: [] } },
    { name: 'host.rejoin', payload: { epoch: 1, orders: dice.many(4, () => order) } },
    { name: dice.pick(['__proto__', 'constructor', 'x'.repeat(200)]), payload: value(dice) },
  ])
}

/** What makes a desktop be awake in its first generation. */
export const wakes = (desktopId: string): Asked[] => {
  const fence = { desktopId, epoch: 1, generation: 1, turn: 1, operationId: newId(), deadlineMs: 20_000 }
  const source = { memory: 'allow', disk: 'make' }
  return [
    { name: 'desktop.ensureDisk', payload: { fence, spec, disk: 'make' } },
    { name: 'desktop.ensureAwake', payload: { fence, spec, source } },
  ]
}
