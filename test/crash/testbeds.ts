// What a crash trial needs of a host: the agent's environment, and how slow its desktops are. Knows no control plane.
import { randomUUID } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ensureMiniImage } from '../../infra/guest-image/mini.ts'
import { startPrivateLibvirtd } from '../../scripts/testbed/libvirtd.ts'
import { run } from '../../scripts/testbed/processes.ts'

export interface HostTestbed {
  name: 'simulated' | 'real'
  /** What the agent is told besides name, token, control plane and failpoints; its state folder is among it. */
  agentEnv: Record<string, string>
  /** The same for an agent of a second host; undefined if there is only one. */
  otherAgentEnv?: Record<string, string>
  /** The longest that a moment of killing lies after the requests: about as long as the operations take. */
  spanMs: number
  /** How long everything may take to settle after a restart. */
  patienceMs: number
  /** Desktop image that the host has. */
  image: string
  /** What runs for templates that are being made. */
  templateGuests(): Promise<string[]>
  close(): Promise<void>
}

/** Desktops that are files, slowed down so that there is something to interrupt. */
export function simulatedTestbed(folder: string): HostTestbed {
  const env = (stateDir: string) => ({
    DORMOUSE_AGENT_DRIVER: 'simulated',
    DORMOUSE_AGENT_STATE_DIR: stateDir,
    DORMOUSE_AGENT_METRICS_LISTEN: 'off',
    DORMOUSE_AGENT_SIMULATED_LATENCY_MS:
      'makeDisk=20,startCold=60,restorePaused=60,resume=10,save=80,kill=20,removeDisk=40,ping=5',
  })
  return {
    name: 'simulated',
    agentEnv: env(folder),
    otherAgentEnv: env(`${folder}-2`),
    spanMs: 400,
    patienceMs: 120_000,
    image: 'mini',
    templateGuests: () => readdir(join(folder, 'simulated/template-domains')).catch(() => []),
    close: async () => undefined,
  }
}

/** Real QEMU under a libvirtd of the run's own. The image is shared between runs. Desktops share the memory of templates, or copy it. */
export async function realTestbed(folder: string, shareTemplates: boolean): Promise<HostTestbed> {
  const imagesDir = fileURLToPath(new URL('../../.dormouse-test/images', import.meta.url))
  const say = () => undefined
  await ensureMiniImage({ imagesDir, say })
  const libvirtd = await startPrivateLibvirtd({
    dir: folder,
    name: 'crash',
    hostUuid: randomUUID(),
    say,
    endsWithUs: true,
  })
  return {
    name: 'real',
    agentEnv: {
      DORMOUSE_AGENT_STATE_DIR: `${libvirtd.shortDir}/agent`,
      DORMOUSE_AGENT_METRICS_LISTEN: 'off',
      DORMOUSE_AGENT_LIBVIRT_SOCKET: libvirtd.socketPath,
      DORMOUSE_AGENT_IMAGES_DIR: imagesDir,
      // If libvirt chooses it, it is in libvirt's own namespace, and the agent cannot open it.
      DORMOUSE_AGENT_SOCKETS_DIR: `${libvirtd.shortDir}/sockets`,
      DORMOUSE_AGENT_SHARE_TEMPLATES: shareTemplates ? 'on' : 'off',
    },
    spanMs: 4_000,
    patienceMs: 180_000,
    image: 'mini',
    templateGuests: async () => {
      const socket = `qemu+unix:///system?socket=${libvirtd.socketPath}`
      const listed = await run('virsh', ['-q', '-c', socket, 'list', '--all', '--name'])
      return listed.split('\n').filter((name) => name.includes('-template-'))
    },
    close: () => libvirtd.stop(),
  }
}
