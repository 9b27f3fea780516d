// Downloads packages of the distribution and unpacks them into a folder, without installing them.

import { mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { isRoot, quote } from '../../scripts/testbed/namespaces.ts'
import { finish, run, type Say } from '../../scripts/testbed/processes.ts'
import { distribution } from './recipe.ts'

/** A downloaded package file with its name and version. */
export type Deb = { name: string; version: string; file: string }

/** Each distribution's kernels: one for virtual machines, and one with drivers for graphical screens. */
const kernels: Record<string, { machines: string; screens: string }> = {
  debian: { machines: 'linux-image-cloud-amd64', screens: 'linux-image-amd64' },
  ubuntu: { machines: 'linux-image-virtual', screens: 'linux-image-generic' },
}

/** The kernel package of this machine's distribution. */
export function kernelFor(purpose: 'machines' | 'screens'): string {
  const { id } = distribution()
  const kernel = kernels[id]?.[purpose]
  if (!kernel) throw new Error(`guest images are built from packages of Debian or Ubuntu; this distribution is ${id}`)
  return kernel
}

/** Downloads these packages, that kernel, and every library they need. */
export async function fetchDebs(kernel: string, roots: string[], folder: string, say: Say): Promise<Deb[]> {
  if (!(await known(kernel))) await update(say)
  const names = needed([kernel, ...roots], await dependencies([kernel, ...roots])).filter((name) => name !== kernel)
  if ((await download(names, folder)).code !== 0) {
    await update(say) // an outdated list names versions that no longer exist
    const { code, stderr } = await download(names, folder)
    if (code !== 0) throw new Error(`the packages of the guest image could not be downloaded: ${stderr.trim()}`)
  }
  return Promise.all(
    readdirSync(folder)
      .sort()
      .map((file) => describe(join(folder, file))),
  )
}

/** Unpacks a package into a tree whose /bin, /lib and /sbin are links into /usr, even if the package has them as folders. */
export async function unpack(deb: Deb, tree: string): Promise<void> {
  mkdirSync(tree, { recursive: true })
  const script = `dpkg-deb --fsys-tarfile ${quote(deb.file)} | tar -x --keep-directory-symlink --no-same-owner -C ${quote(tree)}`
  await run('/bin/sh', ['-c', script])
}

/** The packages to download, from a dependency listing: the roots, their kernel and the libraries, but no other programs. */
export function needed(roots: string[], listing: string): string[] {
  const edges = parse(listing)
  const found = new Set(roots)
  for (const name of found) for (const next of edges.get(name) ?? []) if (isMaterial(next)) found.add(next)
  return [...found]
}

function isMaterial(name: string): boolean {
  return /^(lib|zlib|gcc-\d+-base$)/.test(name) ? !name.startsWith('libpam-') : /^linux-(image|modules)-\d/.test(name)
}

/** From each package to its dependencies; only the first of alternatives. */
function parse(listing: string): Map<string, string[]> {
  const edges = new Map<string, string[]>()
  let current: string[] = []
  let alternative = false
  for (const line of listing.split('\n')) {
    const dependency = /^ ( |\|)(?:Pre)?Depends: (\S+)/.exec(line)
    if (/^\S/.test(line)) {
      current = []
      edges.set(line.trim(), current)
    }
    if (!dependency) continue
    if (!alternative) current.push(dependency[2]!)
    alternative = dependency[1] === '|'
  }
  return edges
}

function dependencies(roots: string[]): Promise<string> {
  const without = ['recommends', 'suggests', 'conflicts', 'breaks', 'replaces', 'enhances'].map(
    (kind) => `--no-${kind}`,
  )
  return run('apt-cache', ['depends', '--recurse', ...without, ...roots])
}

async function known(name: string): Promise<boolean> {
  return (await run('apt-cache', ['show', '--no-all-versions', '--quiet=2', name]).catch(() => '')) !== ''
}

/** Only root can update the package lists. */
async function update(say: Say): Promise<void> {
  if (!isRoot()) throw new Error('apt does not know the packages of the guest image; run as root: apt-get update')
  say('Updating the package lists')
  await run('apt-get', ['--quiet=2', '-o', 'DPkg::Lock::Timeout=120', 'update'])
}

function download(names: string[], folder: string) {
  mkdirSync(folder, { recursive: true })
  return finish('apt-get', ['--quiet=2', '-o', 'APT::Sandbox::User=root', 'download', ...names], { cwd: folder })
}

async function describe(file: string): Promise<Deb> {
  const fields = await run('dpkg-deb', ['--field', file, 'Package', 'Version'])
  const field = (name: string) => new RegExp(`^${name}: (.*)$`, 'm').exec(fields)?.[1] ?? ''
  return { name: field('Package'), version: field('Version'), file }
}
