// The two ways into a guest, each as an image of its own: the mini image as it is, and a copy of it that has the agent only.
import {
  existsSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Desktop } from '@dormouse/client'
import { ensureMiniImage } from '../../infra/guest-image/mini.ts'
import { type Instance, until } from './instance.ts'

const imagesDir = fileURLToPath(new URL('../../.dormouse-test/images', import.meta.url))

export const transports = ['ssh', 'qga'] as const
export type Transport = (typeof transports)[number]

/** A desktop that is awake, and reached in this way. */
export async function desktopOver(instance: Instance, transport: Transport): Promise<Desktop> {
  const imageVersion = transport === 'ssh' ? 'mini' : agentOnlyName()
  const desktop = await instance.create({ imageVersion })
  await desktop.wake()
  await reachedOver(desktop, transport)
  return desktop
}

/** Waits until commands go this way. */
export async function reachedOver(desktop: Desktop, transport: Transport): Promise<void> {
  await until(async () => {
    const { stdout } = await desktop.commands.run('tr "\\0" " " </proc/$PPID/cmdline')
    return (stdout.includes('sshd') ? 'ssh' : 'qga') === transport
  }, 120_000)
}

const agentOnlyName = () => readlinkSync(join(imagesDir, 'mini')).replace('mini@', 'mini-qga@')

/** Both images, to be there before a host says what it has. */
export async function makeImages(): Promise<void> {
  await ensureMiniImage({ imagesDir, say: () => undefined })
  const source = readlinkSync(join(imagesDir, 'mini'))
  const folder = join(imagesDir, agentOnlyName())
  if (existsSync(folder)) return
  const work = `${folder}.${process.pid}`
  mkdirSync(work)
  for (const file of readdirSync(join(imagesDir, source))) {
    if (file !== 'manifest.json') linkSync(join(imagesDir, source, file), join(work, file))
  }
  const manifest = JSON.parse(readFileSync(join(imagesDir, source, 'manifest.json'), 'utf8'))
  writeFileSync(join(work, 'manifest.json'), JSON.stringify({ ...manifest, transports: ['qga'] }))
  renameSync(work, folder)
}
