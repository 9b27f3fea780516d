// The hosts of a run: real agents, each on its hypervisor, or simulated ones.
import { join } from 'node:path'
import { createAdminClient } from '@dormouse/client'
import { canRun } from './api.ts'
import { capacityShare } from './capacity-share.ts'
import { keepRunning } from './children.ts'
import { shareImages } from './host-images.ts'
import type { Hypervisor } from './hypervisor.ts'
import type { Instance } from './instance.ts'
import { linkHosts, type Place, type StartedHost } from './linking.ts'
import type { Run } from './run.ts'
import { ownSettings } from './settings.ts'

export interface HostsOptions {
  urls: string[]
  operatorKey: string
  /** None: simulated hosts. */
  hypervisors: Hypervisor[]
}

/** A host's place, and what its agent is started with. */
interface Planned extends Place {
  env: Record<string, string>
  within?: string[]
}

/** Starts the hosts and waits until they are connected. Throws if none is. */
export async function startHosts(run: Run, { urls, operatorKey, hypervisors }: HostsOptions): Promise<void> {
  const { options, instance, say, step } = run
  const admin = createAdminClient({ baseUrl: urls[0]!, operatorKey })
  const start = async ({ env, within, ...place }: Planned): Promise<StartedHost> => {
    const since = new Date()
    const { token } = await admin.inviteHost({ name: place.name })
    const agent = await keepRunning({
      name: place.name,
      file: 'apps/agent/src/main.ts',
      env: {
        DORMOUSE_AGENT_CONTROL_PLANES: urls.join(','),
        DORMOUSE_AGENT_ENROL_TOKEN: token,
        // Database and hosts are in one folder, and move to another machine together.
        DORMOUSE_AGENT_ADOPT: 'true',
        ...env,
      },
      ...(within && { within }),
      runDir: instance.path('run'),
      say,
    })
    run.onStop(place.name, agent.stop)
    return { ...place, since, logFile: agent.logFile }
  }
  const planned = hypervisors.length > 0 ? realHosts(run, hypervisors) : simulatedHosts(options.simulated, instance)
  const list = async () => (await admin.listHosts()).hosts
  const linked = await linkHosts(planned, { list, isUsable: canRun('mini'), start, say })
  const [first] = hypervisors
  if (!first) step(linked === 1 ? '1 simulated host is connected' : `${linked} simulated hosts are connected`)
  else if (hypervisors.length === 1) step(`the host is connected, with ${first.description}`)
  else step(`${linked} hosts are connected, each with ${first.description}`)
}

/**
 * Settings of the control planes, unless the environment sets them. Emulation is slow: the small tier is made for it. What is
 * tried on one machine receives its webhooks there too.
 */
export const settingsFor = ([hypervisor]: Hypervisor[]): Record<string, string> => ({
  DORMOUSE_WEBHOOK_ALLOW_PRIVATE: 'true',
  ...(hypervisor && !hypervisor.kvm && { DORMOUSE_TIER_SMALL: '1,256,10' }),
  ...ownSettings('controlPlane'),
})

const simulatedHosts = (count: number, instance: Instance): Planned[] =>
  Array.from({ length: count }, (_, at) => {
    const name = `simulated-${at + 1}`
    const folder = instance.path(name)
    return { name, folder, env: { ...simulatedHost(name, folder), ...ownSettings('agent') } }
  })

const simulatedHost = (name: string, folder: string) => ({
  DORMOUSE_AGENT_DRIVER: 'simulated',
  DORMOUSE_AGENT_NAME: name,
  DORMOUSE_AGENT_STATE_DIR: folder,
  DORMOUSE_AGENT_METRICS_LISTEN: 'off',
})

/** Several hosts share the machine. Settings that would put them into one folder or on one address are refused. */
function realHosts({ options, instance }: Run, hypervisors: Hypervisor[]): Planned[] {
  const share = hypervisors.length > 1 ? capacityShare(hypervisors.length, hypervisors[0]!.dir) : {}
  if (hypervisors.length > 1) refuseOneHostsSettings()
  return hypervisors.map((hypervisor) => {
    const { place, dir, network } = hypervisor
    const isFirst = place.number === 1
    if (!isFirst) shareImages(options.imagesDir ?? instance.path('images'), join(place.dir, 'images'))
    const images = (isFirst && options.imagesDir) || `${dir}/images`
    return {
      name: place.agent,
      folder: join(place.dir, 'agent'),
      env: { ...realHost(hypervisor, `${dir}/agent`, images), ...share, ...ownSettings('agent') },
      ...(network && { within: network.enter }),
    }
  })
}

/** The same on each host: each listens on an address of its own. */
const movePort = 7443

const ofOneHost = [
  'NAME',
  'STATE_DIR',
  'MEMORY_DIR',
  'DISKS_DIR',
  'IMAGES_DIR',
  'SOCKETS_DIR',
  'LIBVIRT_SOCKET',
  'MOVE_ADDRESS',
]

function refuseOneHostsSettings(): void {
  const set = ofOneHost.map((name) => `DORMOUSE_AGENT_${name}`).find((name) => process.env[name])
  if (set) throw new Error(`${set} is set, but each of several hosts has its own; unset it`)
}

/** A private libvirt's network leads nowhere: its guests get none, and start sooner without its filters. */
const realHost = (
  { place, socketPath, socketsDir, uri, network }: Hypervisor,
  stateDir: string,
  imagesDir: string,
): Record<string, string> => ({
  DORMOUSE_AGENT_NAME: place.hostName,
  DORMOUSE_AGENT_STATE_DIR: stateDir,
  DORMOUSE_AGENT_METRICS_LISTEN: 'off',
  DORMOUSE_AGENT_LIBVIRT_SOCKET: socketPath,
  ...(uri && { DORMOUSE_AGENT_LIBVIRT_URI: uri }),
  ...(network && { DORMOUSE_AGENT_MOVE_ADDRESS: `${network.address}:${movePort}` }),
  DORMOUSE_AGENT_IMAGES_DIR: imagesDir,
  ...(socketsDir && { DORMOUSE_AGENT_SOCKETS_DIR: socketsDir, DORMOUSE_AGENT_NETWORK: 'none' }),
})
