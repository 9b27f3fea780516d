// Builds the agent and the control plane of a commit, and keeps them in one compressed file beside this one:
// `node test/compat/pin.ts <commit>`; with `--check` it builds them again and compares. Takes a minute: it installs that
// commit's packages.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { run } from '../../scripts/ground/processes.ts'
import { filesIn, pack, pinnedFile, unpack } from './pinned.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const apps = ['agent', 'control-plane']
/** Read by debuggers only. */
const leftOut = /\.map$/
/** Pages for people. No test reads them, but the program looks whether they are there. */
const emptied = /^(viewer|docs)\//

const { values, positionals } = parseArgs({ allowPositionals: true, options: { check: { type: 'boolean' } } })
const [commit] = positionals
if (!commit) throw new Error('name the commit: node test/compat/pin.ts <commit>')

const files = await build(commit)
if (values.check) {
  const differing = differences(files, unpack(readFileSync(pinnedFile(commit))))
  if (differing.length > 0)
    throw new Error(`the pinned build of ${commit} differs from a new one: ${differing.join(', ')}`)
  console.log(`the pinned build of ${commit} is what its source gives`)
} else {
  writeFileSync(pinnedFile(commit), pack(files))
}

/** Files of the bundles, by their path. */
async function build(commit: string): Promise<Record<string, string>> {
  const tree = mkdtempSync(join(tmpdir(), 'dormouse-pin-'))
  try {
    await run('git', ['-C', root, 'worktree', 'add', '--detach', tree, commit])
    await run('npm', ['ci', '--no-audit', '--no-fund'], { cwd: tree })
    const built = await Promise.all(apps.map((app) => bundle(tree, app)))
    return Object.assign({}, ...built)
  } finally {
    await run('git', ['-C', root, 'worktree', 'remove', '--force', tree])
    rmSync(tree, { recursive: true, force: true })
  }
}

/** As `npm run build` does it there, and minified by the same esbuild. */
async function bundle(tree: string, app: string): Promise<Record<string, string>> {
  const folder = join(tree, 'apps', app)
  await run(process.execPath, [join(tree, 'scripts/build/bundle.ts')], { cwd: folder })
  const main = join(folder, 'dist/main.js')
  const small = ['--minify', '--target=node24', '--format=esm', '--allow-overwrite', `--outfile=${main}`]
  await run(join(tree, 'node_modules/.bin/esbuild'), [main, ...small])
  const entries = Object.entries(filesIn(join(folder, 'dist'))).filter(([path]) => !leftOut.test(path))
  return Object.fromEntries(entries.map(([path, text]) => [`${app}/${path}`, emptied.test(path) ? '' : text]))
}

function differences(one: Record<string, string>, other: Record<string, string>): string[] {
  return [...new Set([...Object.keys(one), ...Object.keys(other)])].filter((path) => one[path] !== other[path])
}
