// `npm run image`: builds a guest image and prints its folder. mini.ts and desktop.ts know what is in an image.

import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { type Published, publish } from '../published-images/publish.ts'
import { ensureDesktopImage } from './desktop.ts'
import type { Manifest } from './manifest.ts'
import { ensureMiniImage } from './mini.ts'

const usage = `Usage: npm run image -- [mini | desktop] [--out <folder>] [--publish <folder>] [--renew] [--json]

Builds a guest image from the distribution's packages, unless it is built already, and prints its folder.

  mini     a kernel, BusyBox, an SSH server, a text console; takes seconds. npm start builds it
  desktop  systemd, an X server, a window manager, a terminal, a clipboard; needs root, takes a minute or two

An image is a folder with manifest.json, disk.qcow2, vmlinuz and initrd. A running npm start uses a new one at once.

  --out <folder>      folder of images; by default DORMOUSE_IMAGES_DIR, or images/ in DORMOUSE_DATA (.dormouse)
  --publish <folder>  also copy it to <name>@<version> in this folder, for a web server that hosts fetch it from
  --renew             build it again if the distribution has newer packages
  --json              print the result as one JSON document
  --help              show this text
`

const makers = { mini: ensureMiniImage, desktop: ensureDesktopImage }

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    out: { type: 'string' },
    publish: { type: 'string' },
    renew: { type: 'boolean' },
    json: { type: 'boolean' },
    help: { type: 'boolean' },
  },
})
if (values.help) process.stdout.write(usage)
else await main(positionals[0] ?? 'mini')

async function main(name: string) {
  if (!isKnown(name)) {
    console.error(`there is no image "${name}"; build mini or desktop\n\n${usage}`)
    process.exitCode = 2
    return
  }
  const { DORMOUSE_IMAGES_DIR: shared, DORMOUSE_DATA: data = '.dormouse' } = process.env
  const imagesDir = resolve(values.out ?? shared ?? join(data, 'images'))
  const began = performance.now()
  const say = (line: string) =>
    console.error(`[${((performance.now() - began) / 1_000).toFixed(1).padStart(5)} s] ${line}`)
  const { dir, manifest } = await makers[name]({ imagesDir, renew: values.renew ?? false, say })
  const published = values.publish ? await publish({ dir, manifest }, resolve(values.publish)) : undefined
  if (values.json) console.log(JSON.stringify({ dir, manifest, ...(published && { published }) }))
  else console.log(`${manifest.name} ${manifest.version} is in ${dir}`)
  if (published && !values.json) console.log(nextStep(manifest, published))
}

function nextStep({ name, version }: Manifest, { dir, digest }: Published): string {
  return `It is published in ${dir}. Serve its parent folder, then register it:
  dormouse admin image add ${name}@${version} --from <URL of the parent folder>/${name}@${version} --digest ${digest}`
}

function isKnown(name: string): name is keyof typeof makers {
  return name in makers
}
