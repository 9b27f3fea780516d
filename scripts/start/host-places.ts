// Where the hosts of an instance keep their files, and how many hosts a run has. The first host's folder is the instance's
// own, as it was before an instance could have several.
import { existsSync, readdirSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import type { Instance } from './instance.ts'

export const maxHosts = 9

export interface HostPlace {
  /** From 1. */
  number: number
  /** Its process in this run. */
  agent: string
  /** Holds everything of this host: `libvirt`, `agent`, `screens`, `images`. */
  dir: string
  /** The host's name when it enrols, and inside its namespaces. */
  hostName: string
}

export function hostPlaces({ dir }: Instance, count: number): HostPlace[] {
  return Array.from({ length: count }, (_, at) => {
    const number = at + 1
    return {
      number,
      agent: agentName(number),
      dir: dirOf(dir, number),
      hostName: count === 1 ? hostname() : `host-${number}`,
    }
  })
}

/**
 * How many hosts this run has: the requested number, else as many as have desktops. Throws if fewer were requested than have
 * desktops, since nothing could wake those.
 */
export function countHosts({ dir }: Instance, asked: number | undefined): number {
  const numbers = Array.from({ length: maxHosts }, (_, at) => at + 1)
  const last = numbers.findLast((number) => desktopsIn(dirOf(dir, number)) > 0) ?? 1
  if (asked === undefined || asked >= last) return asked ?? last
  throw new Error(
    `host-${last} has ${counted(desktopsIn(dirOf(dir, last)))} in ${dirOf(dir, last)}, and --hosts ${asked} leaves it out; run npm start -- --hosts ${last}. To use fewer hosts, empty it first: npx dormouse admin host drain host-${last} --sleeping move`,
  )
}

const agentName = (number: number) => (number === 1 ? 'agent' : `agent ${number}`)
const dirOf = (dir: string, number: number) => (number === 1 ? dir : join(dir, `host-${number}`))
const counted = (desktops: number) => (desktops === 1 ? '1 desktop' : `${desktops} desktops`)

/** Each desktop that has run on a host has a disk there. */
function desktopsIn(hostDir: string): number {
  const disks = join(hostDir, 'agent/disks')
  return existsSync(disks) ? readdirSync(disks).filter((name) => name.endsWith('.qcow2')).length : 0
}
