// Builds three releases: the last one that was cut, this one, and the one after it, which does not exist yet: the same sources
// with the changes in `next`.
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, readdirSync, readFileSync, realpathSync, symlinkSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { release } from '@dormouse/process'
import { build, type Plugin } from 'esbuild'
import { oneFile } from '../../scripts/build/one-file.ts'
import { type Edit, edits } from './next/edits.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const changes = join(import.meta.dirname, 'next')

/** What a control plane reads at run time. */
const beside = [
  ['apps/control-plane/src/db/migrations', 'migrations'],
  ['node_modules/@fastify/swagger-ui/static', 'docs'],
] as const

export interface Release {
  version: string
  /** Has a folder with `main.js` for each app. */
  folder: string
}

/** The next minor release of this version. */
const nextVersion = release.version.replace(
  /^(\d+)\.(\d+)\..*$/,
  (_, major, minor) => `${major}.${Number(minor) + 1}.0`,
)

/** The commit that was cut as a release last. Whoever cuts the next one replaces it. */
const releasedCommit = 'fb0885ed6e4b5edc5ed91cd3c6c104dff9cac840'

export async function buildReleases(folder: string): Promise<{ last: Release; here: Release; next: Release }> {
  const sources = sourcesOf(releasedCommit, join(folder, 'sources'))
  const last = { version: versionOf(sources), folder: join(folder, 'last') }
  const here = { version: release.version, folder: join(folder, 'here') }
  const next = { version: nextVersion, folder: join(folder, 'next') }
  const made = new Set<Edit>()
  const all = [...edits, { file: 'packages/process/package.json', find: release.version, put: nextVersion }]
  await bundle(sources, last, [])
  await bundle(root, here, [])
  await bundle(root, next, [withEdits(all, made)])
  const unused = all.filter((edit) => !made.has(edit))
  if (unused.length > 0) throw new Error(`nothing loads ${unused.map(({ file }) => file)}; correct test/compat/next`)
  cpSync(changes, join(next.folder, 'control-plane/migrations'), {
    recursive: true,
    filter: (path) => path === changes || path.endsWith('.sql'),
  })
  return { last, here, next }
}

const versionOf = (sources: string): string =>
  JSON.parse(readFileSync(join(sources, 'packages/process/package.json'), 'utf8')).version

/** Writes the sources of a commit. They use the packages that are installed here, and their own workspaces. */
function sourcesOf(commit: string, folder: string): string {
  mkdirSync(join(folder, 'node_modules/@dormouse'), { recursive: true })
  const archive = execFileSync('git', ['archive', commit, 'apps', 'packages', 'tsconfig.base.json'], {
    cwd: root,
    maxBuffer: 2 ** 28,
  })
  execFileSync('tar', ['-x'], { cwd: folder, input: archive })
  const installed = join(root, 'node_modules')
  for (const name of readdirSync(installed).filter((one) => !one.startsWith('.'))) {
    const from = join(installed, name)
    if (name !== '@dormouse') symlinkSync(from, join(folder, 'node_modules', name))
    else
      for (const own of readdirSync(from)) {
        const workspace = join(folder, relative(root, realpathSync(join(from, own))))
        symlinkSync(workspace, join(folder, 'node_modules', name, own))
      }
  }
  return folder
}

async function bundle(sources: string, { folder }: Release, plugins: Plugin[]): Promise<void> {
  for (const app of ['agent', 'control-plane'])
    await build({
      ...oneFile,
      entryPoints: [join(sources, 'apps', app, 'src/main.ts')],
      outfile: join(folder, app, 'main.js'),
      plugins: [...plugins, ...oneFile.plugins],
      logLevel: 'warning',
    })
  for (const [from, to] of beside) cpSync(join(sources, from), join(folder, 'control-plane', to), { recursive: true })
}

/** Each edit must fit: what it finds is there once. */
function withEdits(all: readonly Edit[], made: Set<Edit>): Plugin {
  return {
    name: 'edits',
    setup({ onLoad }) {
      for (const file of new Set(all.map((edit) => edit.file))) {
        const path = join(root, file)
        const filter = new RegExp(`/${file.replaceAll('.', '\\.')}$`)
        onLoad({ filter }, () => {
          let contents = readFileSync(path, 'utf8')
          for (const edit of all.filter((each) => each.file === file)) {
            const parts = contents.split(edit.find)
            if (parts.length !== 2)
              throw new Error(`${file} has ${parts.length - 1} times ${edit.find}; correct test/compat/next/edits.ts`)
            contents = parts.join(edit.put)
            made.add(edit)
          }
          return { contents, loader: file.endsWith('.json') ? 'json' : 'ts' }
        })
      }
    },
  }
}
