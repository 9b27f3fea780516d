// `npm run image`: builds a guest image and prints its folder. mini.ts and desktop.ts know what is in an image.

import { statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { type Published, publish } from '../published-images/publish.ts'
import { ensureDesktopImage } from './desktop.ts'
import type { Manifest } from './manifest.ts'
import { ensureMiniImage } from './mini.ts'
import { isKeyboard, keyboards, type OwnDesktop } from './own-desktop.ts'

const usage = `Usage: npm run image -- [mini | desktop] [--out <folder>] [--publish <folder>] [--renew] [--json]
       npm run image -- desktop [--packages <a,b,c>] [--files <folder>] [--keyboard <layout>] [--name <name>]

Builds a guest image from the distribution's packages, unless it is built already, and prints its folder.

  mini     a kernel, BusyBox, an SSH server, a text console; takes seconds. npm start builds it
  desktop  systemd, an X server, XFCE, a browser, a terminal, an editor; needs root, takes some minutes

An image is a folder with manifest.json, disk.qcow2, vmlinuz and initrd. A running npm start uses a new one at once.

  --out <folder>      folder of images; by default DORMOUSE_IMAGES_DIR, or images/ in DORMOUSE_DATA (.dormouse)
  --publish <folder>  also copy it to <name>@<version> in this folder, for a web server that hosts fetch it from
  --renew             build it again if the distribution has newer packages
  --json              print the result as one JSON document
  --help              show this text

A desktop of your own:

  --packages <a,b,c>  also install these packages of the distribution
  --files <folder>    copy this folder over the root; home/user becomes the user's. Scripts in it are not run
  --keyboard <layout> what the keys type: ${keyboards.join(', ')} (default: us)
  --name <name>       the image's name (default: desktop; my-desktop with --packages, --files or --keyboard)
`

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    out: { type: 'string' },
    publish: { type: 'string' },
    renew: { type: 'boolean' },
    json: { type: 'boolean' },
    help: { type: 'boolean' },
    packages: { type: 'string', multiple: true },
    files: { type: 'string' },
    keyboard: { type: 'string' },
    name: { type: 'string' },
  },
})
if (values.help) process.stdout.write(usage)
else await main(positionals[0] ?? 'mini')

async function main(recipe: string) {
  const own = ownDesktop(recipe)
  if (typeof own === 'string') {
    console.error(`${own}\n\n${usage}`)
    process.exitCode = 2
    return
  }
  const { DORMOUSE_IMAGES_DIR: shared, DORMOUSE_DATA: data = '.dormouse' } = process.env
  const imagesDir = resolve(values.out ?? shared ?? join(data, 'images'))
  const began = performance.now()
  const say = (line: string) =>
    console.error(`[${((performance.now() - began) / 1_000).toFixed(1).padStart(5)} s] ${line}`)
  const request = { imagesDir, renew: values.renew ?? false, say }
  const { dir, manifest } = await (own ? ensureDesktopImage(request, own) : ensureMiniImage(request))
  const published = values.publish ? await publish({ dir, manifest }, resolve(values.publish)) : undefined
  if (values.json) console.log(JSON.stringify({ dir, manifest, ...(published && { published }) }))
  else console.log(`${manifest.name} ${manifest.version} is in ${dir}`)
  if (published && !values.json) console.log(nextStep(manifest, published))
}

/** The desktop that the options ask for; undefined for the mini image; a text that says what is wrong. */
function ownDesktop(recipe: string): OwnDesktop | undefined | string {
  const { packages = [], files, keyboard = 'us', name } = values
  const isOwn = packages.length > 0 || files !== undefined || values.keyboard !== undefined
  if (recipe === 'mini')
    return isOwn || name ? '--packages, --files, --keyboard and --name are for the desktop image' : undefined
  if (recipe !== 'desktop') return `there is no image "${recipe}"; build mini or desktop`
  if (!isKeyboard(keyboard)) return `--keyboard ${keyboard} is not known; choose ${keyboards.join(', ')}`
  if (files !== undefined && !statSync(files, { throwIfNoEntry: false })?.isDirectory())
    return `--files ${files} is not a folder`
  const chosen = name ?? (isOwn ? 'my-desktop' : 'desktop')
  if (!/^[a-z0-9][a-z0-9.-]{0,59}$/.test(chosen) || chosen === 'mini')
    return `--name ${chosen} is not possible; use lower-case letters, digits, hyphens and dots`
  if (isOwn && chosen === 'desktop') return '--name desktop is the standard one; choose another name for your own'
  return { name: chosen, packages: packages.flatMap((list) => list.split(/[ ,]+/)).filter(Boolean), files, keyboard }
}

function nextStep({ name, version }: Manifest, { dir, digest }: Published): string {
  return `It is published in ${dir}. Serve its parent folder, then register it:
  dormouse admin image add ${name}@${version} --from <URL of the parent folder>/${name}@${version} --digest ${digest}`
}
