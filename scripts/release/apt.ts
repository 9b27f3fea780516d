// An apt repository of the Debian packages: files that any web server serves. It keeps the versions that it has, so that a host can
// go back. Needs dpkg-deb, and gpg to sign.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { copyFileSync, globSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { gzipSync } from 'node:zlib'

const index = 'main/binary-amd64/Packages'

export interface RepositoryOptions {
  /** Seconds since 1970. */
  epoch: number
  /** The name of a secret key of gpg. Without it the repository is not signed. */
  key?: string | undefined
}

/** Adds the package files to the repository in the folder, which is made if there is none. */
export function addToRepository(folder: string, files: readonly string[], { epoch, key }: RepositoryOptions): void {
  const pool = join(folder, 'pool')
  const dist = join(folder, 'dists/stable')
  mkdirSync(pool, { recursive: true })
  mkdirSync(join(dist, index, '..'), { recursive: true })
  for (const file of files) copyFileSync(file, join(pool, basename(file)))
  const names = globSync('*.deb', { cwd: pool }).sort()
  const packages = names.map((name) => entryOf(join(pool, name), `pool/${name}`)).join('\n')
  write(join(dist, index), packages)
  write(join(dist, `${index}.gz`), gzipSync(packages, { level: 9 }))
  write(join(dist, 'Release'), releaseOf(dist, epoch))
  for (const name of ['InRelease', 'Release.gpg']) rmSync(join(dist, name), { force: true })
  if (key) sign(folder, dist, key)
}

/** Whoever reads the file meanwhile has the old one or the new one. */
function write(file: string, content: string | Buffer): void {
  writeFileSync(`${file}.new`, content)
  renameSync(`${file}.new`, file)
}

const sumOf = (content: Buffer): string => createHash('sha256').update(content).digest('hex')

function entryOf(file: string, path: string): string {
  const control = execFileSync('dpkg-deb', ['--field', file], { encoding: 'utf8' })
  const content = readFileSync(file)
  return `${control.trimEnd()}\nFilename: ${path}\nSize: ${content.length}\nSHA256: ${sumOf(content)}\n`
}

function releaseOf(dist: string, epoch: number): string {
  const sums = [index, `${index}.gz`].map((name) => {
    const content = readFileSync(join(dist, name))
    return ` ${sumOf(content)} ${content.length} ${name}\n`
  })
  const date = new Date(epoch * 1_000).toUTCString().replace('GMT', '+0000')
  return `Origin: Dormouse
Label: Dormouse
Suite: stable
Codename: stable
Components: main
Architectures: amd64
Date: ${date}
SHA256:
${sums.join('')}`
}

/** Leaves the public key in the repository, as `dormouse.gpg`. */
function sign(folder: string, dist: string, key: string): void {
  const gpg = (...words: string[]) =>
    execFileSync('gpg', ['--batch', '--yes', '--local-user', key, ...words], { stdio: ['ignore', 'ignore', 'inherit'] })
  const release = join(dist, 'Release')
  gpg('--clearsign', '--output', join(dist, 'InRelease'), release)
  gpg('--armor', '--detach-sign', '--output', join(dist, 'Release.gpg'), release)
  gpg('--output', join(folder, 'dormouse.gpg'), '--export', key)
}
