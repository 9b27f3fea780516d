// What agent and control plane cost a screen, beside QEMU's own VNC socket, on one real desktop.
import { readdirSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import type { Desktop } from '@dormouse/client'
import { createWebSocketStream, WebSocket } from 'ws'
import type { Instance } from '../../real/parts/instance.ts'
import { cpuMs } from '../cpu.ts'
import { Viewer } from '../rfb-viewer.ts'
import { median } from '../statistics.ts'
import { alternate, type Measured, rowOf, type Subject } from '../subject.ts'

const framesEach = 30
const keysEach = 20

export const screens: Subject = {
  name: 'screens',
  what: 'whole screens per second and the time from key to pixel, beside QEMU’s own VNC socket',
  hosts: 'real',
  seconds: { fixed: 10, perRound: 5 },
  run: async ({ real, rounds }) => {
    const { instance, desktop } = await real.get()
    const viewers = { direct: await direct(instance), relayed: await relayed(desktop) }
    for (const viewer of Object.values(viewers)) await viewer.frame(false)
    const taken = await alternate(rounds, {
      floor: () => roundOf(viewers.direct, instance),
      ours: () => roundOf(viewers.relayed, instance),
    })
    for (const viewer of Object.values(viewers)) viewer.end()
    const row = { subject: 'screens', floor: 'QEMU’s VNC socket' } as const
    return [
      rowOf(taken, {
        ...row,
        name: 'whole screens',
        unit: 'MB per second',
        better: 'more',
        of: 'rate',
        ratioKind: 'share',
      }),
      rowOf(taken, { ...row, name: 'key to pixel', unit: 'ms, p50', better: 'less', of: 'key', ratioKind: 'multiple' }),
    ]
  },
}

async function relayed(desktop: Desktop): Promise<Viewer> {
  const { websocketUrl } = await desktop.stream.getUrl({ claim: 'control' })
  return Viewer.over(createWebSocketStream(new WebSocket(websocketUrl)))
}

/** QEMU's own socket: the newest screen of the instance. */
function direct(instance: Instance): Promise<Viewer> {
  const folder = join(instance.dataDir, 'screens')
  const socket = readdirSync(folder).find((name) => name.endsWith('.vnc'))
  // The path of a socket must be short, so it is opened from its folder.
  process.chdir(folder)
  return Viewer.over(connect(socket!))
}

/** Keys first; then whole screens, with the CPU that each of them costs. */
async function roundOf(viewer: Viewer, instance: Instance): Promise<Measured> {
  const keys: number[] = []
  for (let at = 0; at < keysEach; at++) keys.push(await viewer.keyToPixel())
  const pids = { agent: instance.process('agent')!.pid, 'control plane': instance.process('control plane')!.pid }
  const used = () => Object.values(pids).map((pid) => cpuMs(pid))
  const [before, began] = [used(), performance.now()]
  let bytes = 0
  for (let at = 0; at < framesEach; at++) bytes += await viewer.frame(false)
  const [after, tookMs] = [used(), performance.now() - began]
  const cpu = Object.keys(pids).map((name, at) => [`cpu ${name}`, ((after[at]! - before[at]!) / framesEach) * 1_000])
  return { rate: bytes / tookMs / 1e3, key: median(keys), ...(Object.fromEntries(cpu) as Measured) }
}
