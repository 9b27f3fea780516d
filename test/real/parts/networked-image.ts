// The image of the networked host alone: a copy of the mini image, so that a desktop can be made on that host.
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
import type { Instance } from './instance.ts'

const imagesDir = fileURLToPath(new URL('../../../.dormouse-test/images', import.meta.url))
export const networkedImagesDir = `${imagesDir}-networked`

/** To be there before a host says what it has. */
export async function makeNetworkedImage(): Promise<void> {
  await ensureMiniImage({ imagesDir, say: () => undefined })
  const [folder, source] = [copyOfMini(), join(imagesDir, readlinkSync(join(imagesDir, 'mini')))]
  if (existsSync(folder)) return
  const work = `${folder}.${process.pid}`
  mkdirSync(dirname(folder), { recursive: true })
  mkdirSync(work)
  for (const file of readdirSync(source)) {
    if (file !== 'manifest.json') linkSync(join(source, file), join(work, file))
  }
  const manifest = JSON.parse(readFileSync(join(source, 'manifest.json'), 'utf8'))
  writeFileSync(join(work, 'manifest.json'), JSON.stringify({ ...manifest, name: 'mini-networked' }))
  renameSync(work, folder)
}

/** A desktop on the networked host, awake. */
export async function networkedDesktop(
  instance: Instance,
  tier: NonNullable<Parameters<Instance['create']>[0]>['tier'] = 'small',
): Promise<Desktop> {
  const desktop = await instance.create({ tier, imageVersion: basename(copyOfMini()) })
  await desktop.wake()
  return desktop
}

const copyOfMini = () =>
  join(networkedImagesDir, readlinkSync(join(imagesDir, 'mini')).replace('mini@', 'mini-networked@'))
