// `npm run image`: builds a guest image here, and says where it is. What is in one, mini.ts and desktop.ts know.

import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { ensureDesktopImage } from './desktop.ts'
import { ensureMiniImage } from './mini.ts'

const usage = `Usage: npm run image -- [mini | desktop] [--out <folder>] [--renew] [--json]

Builds a guest image from the distribution's packages; where it is there already, it says so.

  mini     a kernel, BusyBox, an SSH server, a text console; built in seconds. npm start brings it by itself
  desktop  systemd, an X server, a window manager, a terminal, a clipboard; built as root in a minute or two

An image is a folder with manifest.json, disk.qcow2, vmlinuz and initrd. A running npm start offers a new one at once.

  --out <folder>  where images lie; by default DORMOUSE_IMAGES_DIR, or images/ below DORMOUSE_DATA (.dormouse)
  --renew         builds it anew where the distribution has newer packages
  --json          the result as one JSON document on stdout
  --help          this text
`

const makers = { mini: ensureMiniImage, desktop: ensureDesktopImage }

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    out: { type: 'string' },
    renew: { type: 'boolean' },
    json: { type: 'boolean' },
    help: { type: 'boolean' },
  },
})
if (values.help) process.stdout.write(usage)
else await main(positionals[0] ?? 'mini')

async function main(name: string) {
  if (!isKnown(name)) {
    console.error(`There is no recipe for an image "${name}".\n\n${usage}`)
    process.exitCode = 2
    return
  }
  const { DORMOUSE_IMAGES_DIR: shared, DORMOUSE_DATA: data = '.dormouse' } = process.env
  const imagesDir = resolve(values.out ?? shared ?? join(data, 'images'))
  const began = performance.now()
  const say = (line: string) =>
    console.error(`[${((performance.now() - began) / 1_000).toFixed(1).padStart(5)} s] ${line}`)
  const { dir, manifest } = await makers[name]({ imagesDir, renew: values.renew ?? false, say })
  console.log(values.json ? JSON.stringify({ dir, manifest }) : `${manifest.name} ${manifest.version} is in ${dir}`)
}

function isKnown(name: string): name is keyof typeof makers {
  return name in makers
}
