// The Debian packages of a release: the control plane, the agent and the command line, each with its own Node. Their control files,
// scripts and settings are in infra/debian, their units in infra/systemd. Needs dpkg-deb, strip and xz.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  cpSync,
  existsSync,
  globSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { bundle } from '../build/bundle.ts'
import { buildProgram } from '../build/program.ts'
import { manualOf, manualOfCommands } from './manual.ts'
import { nodeFolder, packagedNode } from './node.ts'
import { partsOf } from './parts.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const maintainer = 'Dormouse <packages@dormouse.example>'

/** A higher level takes minutes, for a tenth of the size. Several threads make other bytes. */
const packed = ['-Zxz', '-z2', '--threads-max=1']

interface DebianPackage {
  name: string
  workspace: string
  units: readonly string[]
  /** The settings that its documentation explains. */
  documents: readonly string[]
  /** Writes what is built into the package's own folder, and its manual page into the tree. */
  build: (folder: string, tree: string, npm: string) => Promise<void>
}

/** Where each shell of Debian looks for what it completes. */
const completions = {
  bash: 'usr/share/bash-completion/completions/dormouse',
  zsh: 'usr/share/zsh/vendor-completions/_dormouse',
  fish: 'usr/share/fish/vendor_completions.d/dormouse.fish',
}

/** The tree of a program that serves. */
const service = async (name: string, app: string, folder: string, tree: string): Promise<void> => {
  await bundle(app, folder)
  const help = execFileSync(process.execPath, [join(folder, 'main.js'), '--help'], { encoding: 'utf8' })
  manual(tree, 8, name, manualOf(name, 8, help))
}

const packages: readonly DebianPackage[] = [
  {
    name: 'dormouse-control-plane',
    workspace: 'apps/control-plane',
    units: ['dormouse-control-plane.service', 'dormouse-backup.service', 'dormouse-backup.timer'],
    documents: ['docs/configuration.md'],
    build: async (folder, tree, npm) => {
      await service('dormouse-control-plane', 'apps/control-plane', folder, tree)
      for (const name of ['client', 'dormouse', 'mcp'])
        cpSync(join(npm, `${name}.tgz`), join(folder, `sdk/${name}.tgz`), { recursive: true })
      for (const name of ['dormouse-backup', 'dormouse-restore'])
        cpSync(join(root, 'infra/backup', name), join(folder, name))
    },
  },
  {
    name: 'dormouse-agent',
    workspace: 'apps/agent',
    units: ['dormouse-agent.service', 'dormouse-agent-upgrade.path', 'dormouse-agent-upgrade.service'],
    documents: ['docs/configuration.md'],
    build: async (folder, tree) => {
      await service('dormouse-agent', 'apps/agent', folder, tree)
      cpSync(join(root, 'infra/systemd/dormouse-agent-upgrade'), join(folder, 'dormouse-agent-upgrade'))
    },
  },
  {
    name: 'dormouse',
    workspace: 'apps/cli',
    units: [],
    documents: [],
    build: async (folder, tree) => {
      await buildProgram('apps/cli', folder)
      // Debian has them in places of its own.
      for (const name of ['LICENSE', 'README.md']) rmSync(join(folder, name))
      // The program in /usr/bin names the package's own Node.
      const file = join(folder, 'dormouse.js')
      writeFileSync(file, readFileSync(file, 'utf8').replace(/^#!.*\n/, ''))
      for (const [shell, path] of Object.entries(completions)) {
        const words = [file, 'completion', shell]
        const text = execFileSync(process.execPath, words, { encoding: 'utf8' })
        mkdirSync(join(tree, dirname(path)), { recursive: true })
        writeFileSync(join(tree, path), text)
      }
      manual(tree, 1, 'dormouse', manualOfCommands())
    },
  },
]

export interface DebianOptions {
  /** The folder that has the npm packages, which a control plane serves. */
  npm: string
  version: string
  /** Seconds since 1970: the time of all that a package contains. */
  epoch: number
  /** The packages to make; by default all. */
  names?: readonly string[]
  /** For tests, which need no small packages. */
  uncompressed?: boolean
  say: (words: string) => void
}

/** Makes `<name>_<version>_amd64.deb` and its parts list for each package in the folder. Returns the names of the packages' files. */
export async function packDebian(out: string, options: DebianOptions): Promise<string[]> {
  const work = mkdtempSync(join(tmpdir(), 'dormouse-debian-'))
  try {
    const node = join(work, 'node')
    execFileSync('strip', ['--strip-all', '-o', node, join(nodeFolder(packagedNode), 'bin/node')])
    const files: string[] = []
    for (const each of packages.filter(({ name }) => options.names?.includes(name) ?? true)) {
      options.say(`Making ${each.name}_${options.version}_amd64.deb`)
      files.push(await pack(each, join(work, each.name), node, out, options))
    }
    return files
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
}

async function pack(each: DebianPackage, tree: string, node: string, out: string, options: DebianOptions) {
  const { name, workspace, units, documents } = each
  const { version, epoch, uncompressed = false } = options
  const program = join(tree, 'usr/lib', name)
  const shown = join(tree, 'usr/share/doc', name)
  cpSync(join(root, 'infra/debian', name), tree, { recursive: true })
  for (const unit of units)
    cpSync(join(root, 'infra/systemd', unit), join(tree, 'usr/lib/systemd/system', unit), { recursive: true })
  await each.build(program, tree, options.npm)
  cpSync(node, join(program, 'node'))
  for (const file of documents) cpSync(join(root, file), join(shown, file.split('/').at(-1)!), { recursive: true })
  const parts = partsOf(root, workspace, { name: 'node', version: packagedNode })
  mkdirSync(shown, { recursive: true })
  writeFileSync(join(shown, 'parts.cdx.json'), parts)
  writeFileSync(join(shown, 'copyright'), copyright(name))
  writeFileSync(join(shown, 'changelog.gz'), gzipSync(changelog(name, version, epoch), { level: 9 }))
  setModes(tree)
  describe(tree, name, version)
  const file = `${name}_${version}_amd64.deb`
  const words = ['--root-owner-group', ...(uncompressed ? ['-Znone'] : packed), '--build', tree, join(out, file)]
  execFileSync('dpkg-deb', words, {
    env: { ...process.env, SOURCE_DATE_EPOCH: String(epoch) },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  writeFileSync(join(out, file.replace(/deb$/, 'cdx.json')), parts)
  return file
}

function manual(tree: string, section: number, name: string, text: string): void {
  const folder = join(tree, `usr/share/man/man${section}`)
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, `${name}.${section}.gz`), gzipSync(text, { level: 9 }))
}

const contentOf = (tree: string): string[] =>
  globSync('**/*', { cwd: tree })
    .filter((path) => path !== 'DEBIAN' && !path.startsWith('DEBIAN/') && lstatSync(join(tree, path)).isFile())
    .sort()

/** The same whatever the builder's umask is. */
function setModes(tree: string): void {
  for (const path of ['', ...globSync('**/*', { cwd: tree })]) {
    const isFolder = lstatSync(join(tree, path)).isDirectory()
    const isProgram =
      /^(usr\/bin\/|usr\/lib\/[^/]+\/(node|dormouse-(agent-upgrade|backup|restore))$|DEBIAN\/(pre|post)(inst|rm)$)/.test(
        path,
      )
    chmodSync(join(tree, path), isFolder || isProgram ? 0o755 : 0o644)
  }
}

/** Adds to the package's control file what depends on its content. */
function describe(tree: string, name: string, version: string): void {
  const files = contentOf(tree)
  const bytes = files.reduce((sum, path) => sum + lstatSync(join(tree, path)).size, 0)
  const control = join(tree, 'DEBIAN/control')
  const head = [
    ...[`Package: ${name}`, `Version: ${version}`, 'Architecture: amd64', `Maintainer: ${maintainer}`],
    ...[`Installed-Size: ${Math.ceil(bytes / 1024)}`, 'Priority: optional', 'Homepage: https://dormouse.example'],
  ]
  writeFileSync(control, `${head.join('\n')}\n${readFileSync(control, 'utf8')}`)
  const settings = files.filter((path) => path.startsWith('etc/'))
  if (settings.length > 0) writeFileSync(join(tree, 'DEBIAN/conffiles'), settings.map((path) => `/${path}\n`).join(''))
  const sums = files.map(
    (path) =>
      `${createHash('md5')
        .update(readFileSync(join(tree, path)))
        .digest('hex')}  ${path}\n`,
  )
  writeFileSync(join(tree, 'DEBIAN/md5sums'), sums.join(''))
  for (const path of ['conffiles', 'md5sums'])
    if (existsSync(join(tree, 'DEBIAN', path))) chmodSync(join(tree, 'DEBIAN', path), 0o644)
}

/** The licence of Node names those of the libraries inside of it. */
function copyright(name: string): string {
  const node = readFileSync(join(nodeFolder(packagedNode), 'LICENSE'), 'utf8')
  const indented = node
    .trimEnd()
    .replaceAll(/^[^\S\n]*$/gm, '.')
    .replaceAll(/^/gm, ' ')
  return `Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Comment: The npm packages inside of the program, with their licences, are in parts.cdx.json.

Files: *
Copyright: the authors of Dormouse
License: Apache-2.0
 On Debian systems, the text is in /usr/share/common-licenses/Apache-2.0.

Files: usr/lib/${name}/node
Copyright: Node.js contributors
License: Node.js
${indented}
`
}

const changelog = (name: string, version: string, epoch: number): string =>
  `${name} (${version}) stable; urgency=medium

  * Release ${version}.

 -- ${maintainer}  ${new Date(epoch * 1_000).toUTCString().replace('GMT', '+0000')}
`
