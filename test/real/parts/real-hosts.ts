// The hosts of an instance that was started with `--hosts N`, as a test reaches into them: what has a disk there, the agent,
// the libvirt, the cables between them.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createAdminClient, type HostJson } from '@dormouse/client'
import { type CabledHost, cutCable, mendCable } from '../../../scripts/testbed/cables.ts'
import { type PrivateLibvirtd, startPrivateLibvirtd } from '../../../scripts/testbed/libvirtd.ts'
import { run } from '../../../scripts/testbed/processes.ts'
import type { Instance } from './instance.ts'

export interface RealHost extends CabledHost {
  id: string
  name: string
  /** For `instance.kill` and `instance.process`. */
  agent: string
  /** Its folder, with `agent`, `libvirt` and `images`. */
  dir: string
  /** Where it keeps the desktops' disks. */
  disksDir: string
  /** To kill its daemon, to run programs inside, to cut its power. */
  libvirtd: PrivateLibvirtd
  /** The desktops that have a disk here, sorted. */
  desktopsOnDisk(): string[]
  /** The names of its libvirt's domains. Each ends with its desktop's id. */
  domains(): Promise<string[]>
  /** As operators see it now. */
  shown(): Promise<HostJson>
  /** Pulls the cable out that leads to the other host, and puts it back. The link to the control plane stays. */
  cutFrom(other: RealHost): Promise<void>
  mendTo(other: RealHost): Promise<void>
  /** Takes its loopback device down, and up again. Its agent reaches the control plane over that. */
  setLoopback(state: 'up' | 'down'): Promise<void>
}

/** The hosts in their order: host-1, host-2. Call it again after a start, since their processes are others then. */
export async function realHosts(instance: Instance): Promise<RealHost[]> {
  const { base_url: baseUrl, operator_key: operatorKey } = instance.local
  const admin = createAdminClient({ baseUrl, operatorKey })
  const list = async () => (await admin.listHosts()).hosts
  const known = await list()
  const { dataDir } = instance
  const further = readdirSync(dataDir).filter((name) => /^host-\d$/.test(name))
  const hosts = [dataDir, ...further.sort().map((name) => join(dataDir, name))].map(async (dir, at) => {
    const number = at + 1
    const { hostId } = JSON.parse(readFileSync(join(dir, 'agent/identity.json'), 'utf8')) as { hostId: string }
    const { name } = known.find(({ id }) => id === hostId)!
    const libvirtd = await takeHold(dir, name)
    const disksDir = join(dir, 'agent/disks')
    const host: RealHost = {
      number,
      pid: libvirtd.pid,
      id: hostId,
      name,
      agent: number === 1 ? 'agent' : `agent ${number}`,
      dir,
      disksDir,
      libvirtd,
      desktopsOnDisk: () => (existsSync(disksDir) ? readdirSync(disksDir) : []).flatMap(desktopOf).sort(),
      domains: () => domainsOf(libvirtd),
      shown: async () => (await list()).find(({ id }) => id === hostId)!,
      cutFrom: (other) => cutCable(host, other),
      mendTo: (other) => mendCable(host, other),
      setLoopback: async (state) => {
        await libvirtd.exec('busybox', 'ip', 'link', 'set', 'lo', state)
      },
    }
    return host
  })
  return Promise.all(hosts)
}

async function domainsOf({ socketPath }: PrivateLibvirtd): Promise<string[]> {
  const uri = `qemu+unix:///system?socket=${socketPath}`
  const listed = await run('virsh', ['-q', '-c', uri, 'list', '--all', '--name'])
  return listed.split('\n').filter(Boolean)
}

const desktopOf = (file: string): string[] => /^(.+)\.qcow2$/.exec(file)?.slice(1) ?? []

/** The starter keeps it running; this is a second handle on the same one. */
function takeHold(dir: string, name: string): Promise<PrivateLibvirtd> {
  const hostUuid = readFileSync(join(dir, 'host-uuid'), 'utf8').trim()
  return startPrivateLibvirtd({ dir, name, hostUuid, say: () => undefined })
}
