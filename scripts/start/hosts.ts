// The hosts of a run: one real agent on the hypervisor, or simulated ones.
import { hostname } from 'node:os'
import { createAdminClient } from '@dormouse/client'
import { canRun } from './api.ts'
import { keepRunning } from './children.ts'
import type { Hypervisor } from './hypervisor.ts'
import { linkHosts, type Place, type StartedHost } from './linking.ts'
import type { Run } from './run.ts'

export interface HostsOptions {
  urls: string[]
  operatorKey: string
  /** None: simulated hosts. */
  hypervisor: Hypervisor | undefined
}

/** Starts the hosts and waits until they are connected. Throws if none is. */
export async function startHosts(run: Run, { urls, operatorKey, hypervisor }: HostsOptions): Promise<void> {
  const { options, instance, say, step } = run
  const admin = createAdminClient({ baseUrl: urls[0]!, operatorKey })
  const start = async (place: Place): Promise<StartedHost> => {
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
        ...(hypervisor ? realHost(hypervisor, place, options.imagesDir) : simulatedHost(place)),
        ...ownSettings('DORMOUSE_AGENT_'),
      },
      runDir: instance.path('run'),
      say,
    })
    run.onStop(place.name, agent.stop)
    return { ...place, since, logFile: agent.logFile }
  }
  const names = hypervisor ? ['agent'] : Array.from({ length: options.simulated }, (_, i) => `simulated-${i + 1}`)
  const places = names.map((name) => ({ name, folder: instance.path(name) }))
  const list = async () => (await admin.listHosts()).hosts
  const linked = await linkHosts(places, { list, isUsable: canRun('mini'), start, say })
  if (hypervisor) step(`the host is connected, with ${hypervisor.description}`)
  else step(linked === 1 ? '1 simulated host is connected' : `${linked} simulated hosts are connected`)
}

/** Settings of the control planes. Emulation is slow: the small tier is made for it, unless the environment sets it. */
export const settingsFor = (hypervisor: Hypervisor | undefined): Record<string, string> => ({
  ...(hypervisor && !hypervisor.kvm && { DORMOUSE_TIER_SMALL: '1,256,10' }),
  ...ownSettings('DORMOUSE_'),
})

const simulatedHost = ({ name, folder }: Place) => ({
  DORMOUSE_AGENT_DRIVER: 'simulated',
  DORMOUSE_AGENT_NAME: name,
  DORMOUSE_AGENT_STATE_DIR: folder,
  DORMOUSE_AGENT_METRICS_LISTEN: 'off',
})

/** A private libvirt's network leads nowhere: its guests get none, and start sooner without its filters. */
const realHost = (
  { socketPath, dir, socketsDir, uri }: Hypervisor,
  { name }: Place,
  imagesDir = `${dir}/images`,
): Record<string, string> => ({
  DORMOUSE_AGENT_NAME: hostname(),
  DORMOUSE_AGENT_STATE_DIR: `${dir}/${name}`,
  DORMOUSE_AGENT_METRICS_LISTEN: 'off',
  DORMOUSE_AGENT_LIBVIRT_SOCKET: socketPath,
  ...(uri && { DORMOUSE_AGENT_LIBVIRT_URI: uri }),
  DORMOUSE_AGENT_IMAGES_DIR: imagesDir,
  ...(socketsDir && { DORMOUSE_AGENT_SOCKETS_DIR: socketsDir, DORMOUSE_AGENT_NETWORK: 'none' }),
})

/** Settings from our own environment. They win over the defaults of a run. */
const ownSettings = (prefix: string): Record<string, string> =>
  Object.fromEntries(
    Object.entries(process.env).filter(([name, value]) => name.startsWith(prefix) && value) as [string, string][],
  )
