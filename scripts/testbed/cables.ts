// Cables between the networks of private hosts: one between any two, so that each can be cut by itself. The machine's own
// network has no part in them, and a host that ends takes its ends of them along.

import { insideNetwork } from './private-host.ts'
import { finish, run } from './processes.ts'

export type CabledHost = {
  /** From 1: the last number of its address. */
  number: number
  /** A process in its network. */
  pid: number
}

/** The host's address on its cables. They lead nowhere else, so every instance uses the same addresses. */
export const cableAddress = (number: number): string => `10.98.0.${number}`

/** A cable's name, inside a host, is that of the host at its other end. */
const cableTo = ({ number }: CabledHost): string => `host-${number}`

/** Lays the cables that are missing. Hosts that an earlier run left have theirs. */
export async function layCables(hosts: readonly CabledHost[]): Promise<void> {
  for (const [at, one] of hosts.entries()) {
    await run(...ip(one, 'addr', 'replace', `${cableAddress(one.number)}/32`, 'dev', 'lo'))
    for (const other of hosts.slice(0, at)) {
      if (!(await isLaid(one, other))) await lay(one, other)
      await mendCable(one, other)
    }
  }
}

/** Cuts the cable between two hosts: what is sent over it gets no answer, as after it was pulled out. */
export async function cutCable(one: CabledHost, other: CabledHost): Promise<void> {
  await run(...ip(one, 'link', 'set', cableTo(other), 'down'))
}

/** Puts a cut cable back. */
export async function mendCable(one: CabledHost, other: CabledHost): Promise<void> {
  await Promise.all([plugIn(one, other), plugIn(other, one)])
}

async function isLaid(one: CabledHost, other: CabledHost): Promise<boolean> {
  const { code } = await finish(...ip(one, 'link', 'show', cableTo(other)))
  return code === 0
}

async function lay(one: CabledHost, other: CabledHost): Promise<void> {
  const near = [cableTo(other), 'netns', String(one.pid)]
  const far = [cableTo(one), 'netns', String(other.pid)]
  await run('ip', ['link', 'add', ...near, 'type', 'veth', 'peer', 'name', ...far])
}

/** Taking an end down removes its route. */
async function plugIn(one: CabledHost, other: CabledHost): Promise<void> {
  const [to, from] = [cableAddress(other.number), cableAddress(one.number)]
  await run(...ip(one, 'link', 'set', cableTo(other), 'up'))
  await run(...ip(one, 'route', 'replace', `${to}/32`, 'dev', cableTo(other), 'src', from))
}

/** The command that runs `ip` in the host's network. */
function ip({ pid }: CabledHost, ...words: string[]): [string, string[]] {
  const [command, ...args] = [...insideNetwork(pid), 'ip', ...words]
  return [command!, args]
}
