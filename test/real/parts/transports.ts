// The ways into a guest, each as an image of its own: the mini image as it is, and copies of it that say they have less.
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
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Desktop } from '@dormouse/client'
import { ensureMiniImage } from '../../../infra/guest-image/mini.ts'
import { waitFor } from '../../wait-for.ts'
import type { Instance } from './instance.ts'

const imagesDir = fileURLToPath(new URL('../../../.dormouse-test/images', import.meta.url))
/** Of the host whose agent stands where the guests' network is: it alone has the image that is reached over one. */
export const networkedImagesDir = `${imagesDir}-networked`

/** How each is reached: over SSH on a port of its own, through the guest agent alone, over SSH on the guests' network. */
export const allTransports = ['ssh', 'qga', 'tcp'] as const
export type Transport = (typeof allTransports)[number]
/** Those that need no host of their own. */
export const transports = ['ssh', 'qga'] as const

const copies: Record<Exclude<Transport, 'ssh'>, { dir: string; says: string[] }> = {
  qga: { dir: imagesDir, says: ['qga'] },
  tcp: { dir: networkedImagesDir, says: ['ssh-tcp', 'qga'] },
}

/** A desktop of the image for that way, awake and reached in it, or in the way that its host leaves it. */
export async function desktopOver(instance: Instance, transport: Transport, by = transport): Promise<Desktop> {
  const imageVersion = transport === 'ssh' ? 'mini' : basename(copyFor(transport))
  const desktop = await instance.create({ imageVersion })
  await desktop.wake()
  await reachedOver(instance, desktop, by)
  return desktop
}

/** Waits until commands go this way. */
export async function reachedOver({ client }: Instance, { id }: Desktop, transport: Transport): Promise<void> {
  await waitFor(async () => {
    // Only one that came over the network left a connection there.
    const command = 'tr "\\0" " " </proc/$PPID/cmdline; netstat -tn'
    // With a key it would be a child of a supervisor.
    const { stdout } = await client.exec(id, { command }, { idempotencyKey: null })
    const over = !stdout.includes('sshd') ? 'qga' : /:22\s.*ESTABLISHED/.test(stdout) ? 'tcp' : 'ssh'
    return over === transport
  }, 120_000)
}

/** All images, to be there before a host says what it has. */
export async function makeImages(): Promise<void> {
  await ensureMiniImage({ imagesDir, say: () => undefined })
  copyImage('qga')
  copyImage('tcp')
}

const copyFor = (transport: keyof typeof copies) =>
  join(copies[transport].dir, readlinkSync(join(imagesDir, 'mini')).replace('mini@', `mini-${transport}@`))

function copyImage(transport: keyof typeof copies): void {
  const [folder, source] = [copyFor(transport), join(imagesDir, readlinkSync(join(imagesDir, 'mini')))]
  if (existsSync(folder)) return
  const work = `${folder}.${process.pid}`
  mkdirSync(dirname(folder), { recursive: true })
  mkdirSync(work)
  for (const file of readdirSync(source)) {
    if (file !== 'manifest.json') linkSync(join(source, file), join(work, file))
  }
  const manifest = JSON.parse(readFileSync(join(source, 'manifest.json'), 'utf8'))
  writeFileSync(join(work, 'manifest.json'), JSON.stringify({ ...manifest, transports: copies[transport].says }))
  renameSync(work, folder)
}
