// `npm run release -- --out <folder>`: makes what a version of Dormouse is installed from, with the same bytes each time.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  copyFileSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { addToRepository } from './release/apt.ts'
import { packDebian } from './release/debian.ts'
import { packImage } from './release/image.ts'
import { packNpm } from './release/npm.ts'

const help = `npm run release -- --out <folder>    the packages of this version, with their parts lists and SHA256SUMS
npm run release -- --out <folder> --json    the table as one line of JSON
npm run release -- --out <folder> --repository <folder> [--key <name>]
                                            and add the Debian packages to an apt repository there, which any web server
                                            serves; --key names the secret key of gpg that signs it

  client, dormouse and mcp as .tgz, for npm i and npx
  dormouse-control-plane, dormouse-agent and dormouse as .deb, for Debian 12 and 13
  dormouse-control-plane as .oci.tar, a container image for docker load or podman load
  a .cdx.json for each: its parts, in the format of CycloneDX
  SHA256SUMS`

const { values } = parseArgs({
  options: {
    repository: { type: 'string' },
    key: { type: 'string' },
    out: { type: 'string' },
    json: { type: 'boolean' },
    help: { type: 'boolean', short: 'h' },
  },
})

const root = fileURLToPath(new URL('../', import.meta.url))
const version: string = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')).version
const say = (words: string): void => console.error(words)

// The users of a machine and of a container read what is packed, whatever the umask of the builder is.
process.umask(0o022)

async function release(out: string, isJson: boolean): Promise<void> {
  mkdirSync(out, { recursive: true })
  // A folder with half of a release has none of its files.
  const made = mkdtempSync(join(tmpdir(), 'dormouse-release-'))
  try {
    await packNpm(made, say)
    const options = { version, epoch: epochOf(), say }
    const debs = await packDebian(made, { ...options, npm: made })
    const image = packImage(made, options)
    copyFileSync(
      join(made, `dormouse-control-plane_${version}_amd64.cdx.json`),
      join(made, image.replace(/tar$/, 'cdx.json')),
    )
    const { repository, key } = values
    if (repository)
      addToRepository(
        repository,
        debs.map((name) => join(made, name)),
        { ...options, key },
      )
    const names = readdirSync(made).sort()
    const sums = names.map((name) => `${sha256(join(made, name))}  ${name}\n`).join('')
    writeFileSync(join(made, 'SHA256SUMS'), sums)
    const files = [...names, 'SHA256SUMS'].map((name) => ({ name, bytes: statSync(join(made, name)).size }))
    for (const { name } of files) place(join(made, name), join(out, name))
    console.log(isJson ? JSON.stringify({ folder: out, files }) : tableOf(files))
  } finally {
    rmSync(made, { recursive: true, force: true })
  }
}

/** The time of everything that is packed: `SOURCE_DATE_EPOCH`, or that of the commit. */
function epochOf(): number {
  const given = process.env.SOURCE_DATE_EPOCH
  if (given) return Number(given)
  return Number(execFileSync('git', ['log', '-1', '--format=%ct'], { cwd: root, encoding: 'utf8' }))
}

/** The folders may be on different file systems. */
function place(from: string, to: string): void {
  writeFileSync(`${to}.new`, readFileSync(from))
  renameSync(`${to}.new`, to)
}

const sha256 = (file: string): string => createHash('sha256').update(readFileSync(file)).digest('hex')

function tableOf(files: { name: string; bytes: number }[]): string {
  const width = Math.max(...files.map(({ name }) => name.length))
  return files
    .map(({ name, bytes }) => `${name.padEnd(width)}  ${(bytes / 1024).toFixed(0).padStart(7)} KiB`)
    .join('\n')
}

if (values.help) console.log(help)
else if (!values.out) {
  console.error('release: no folder was given; say where the files go with --out <folder>')
  process.exitCode = 2
} else if (values.key && !values.repository) {
  console.error('release: --key signs a repository; name its folder with --repository <folder>')
  process.exitCode = 2
} else await release(values.out, values.json ?? false)
