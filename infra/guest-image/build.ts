// `npm run image`: builds a guest image here, and says where it is. What is in one, mini.ts and desktop.ts know.

import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { ensureMiniImage } from './mini.ts'

const usage = `Usage: npm run image -- [mini] [--out <folder>] [--json]

Builds the guest image "mini" from the distribution's packages, anew where there are newer ones.
An image is a folder with manifest.json, disk.qcow2, vmlinuz and initrd.

  --out <folder>  where images lie; by default images/ below DORMOUSE_DATA (.dormouse)
  --json          the result as one JSON document on stdout
  --help          this text
`

const { values } = parseArgs({
  options: { out: { type: 'string' }, json: { type: 'boolean' }, help: { type: 'boolean' } },
})
if (values.help) process.stdout.write(usage)
else await main()

async function main() {
  const imagesDir = resolve(values.out ?? join(process.env.DORMOUSE_DATA ?? '.dormouse', 'images'))
  const { dir, manifest } = await ensureMiniImage({ imagesDir, renew: true, say: (line) => console.error(line) })
  console.log(values.json ? JSON.stringify({ dir, manifest }) : `${manifest.name} ${manifest.version} is in ${dir}`)
}
