// Builds this release, and the one after it, which does not exist yet: the same sources with the changes in `next`.
import { cpSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
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

export async function buildReleases(folder: string): Promise<{ here: Release; next: Release }> {
  const here = { version: release.version, folder: join(folder, 'this') }
  const next = { version: nextVersion, folder: join(folder, 'next') }
  const made = new Set<Edit>()
  const all = [...edits, { file: 'packages/process/package.json', find: release.version, put: nextVersion }]
  for (const app of ['agent', 'control-plane']) {
    await bundle(app, here, [])
    await bundle(app, next, [withEdits(all, made)])
  }
  const unused = all.filter((edit) => !made.has(edit))
  if (unused.length > 0) throw new Error(`nothing loads ${unused.map(({ file }) => file)}; correct test/compat/next`)
  for (const { folder: into } of [here, next])
    for (const [from, to] of beside) cpSync(join(root, from), join(into, 'control-plane', to), { recursive: true })
  cpSync(changes, join(next.folder, 'control-plane/migrations'), {
    recursive: true,
    filter: (path) => path === changes || path.endsWith('.sql'),
  })
  return { here, next }
}

async function bundle(app: string, { folder }: Release, plugins: Plugin[]): Promise<void> {
  await build({
    ...oneFile,
    entryPoints: [join(root, 'apps', app, 'src/main.ts')],
    outfile: join(folder, app, 'main.js'),
    plugins: [...plugins, ...oneFile.plugins],
    logLevel: 'warning',
  })
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
