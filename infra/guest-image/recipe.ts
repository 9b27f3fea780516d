// What decides what is inside an image, as digests: its files here, and the distribution whose packages it is made of.

import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'

const here = import.meta.dirname

/** Digest of everything that decides what is in an image, except the packages. `own` is what its user adds to the recipe. */
export function recipeDigest(name: string, own: readonly string[] = []): string {
  const { id, release } = distribution()
  const files = filesOf(name).flatMap((file) => [file, readFileSync(join(here, file), 'latin1')])
  return digest([id, release, ...files, ...own])
}

/** Every file of this folder except tests, pages, and files of other images. */
function filesOf(name: string): string[] {
  const others = ['mini', 'desktop'].filter((other) => other !== name)
  return readdirSync(here, { recursive: true, encoding: 'utf8' })
    .filter((file) => !others.some((other) => file === `${other}.ts` || file.startsWith(`${other}/`)))
    .filter((file) => !/(\.test\.ts|\.md)$/.test(file) && file !== 'build.ts')
    .filter((file) => statSync(join(here, file)).isFile())
    .sort()
}

export function digest(parts: string[]): string {
  return createHash('sha256').update(parts.join('\0')).digest('hex')
}

/** The distribution of this machine. */
export function distribution(): { id: string; release: string; codename: string } {
  const text = readFileSync('/etc/os-release', 'utf8')
  const field = (key: string) => new RegExp(`^${key}="?([^"\n]*)"?$`, 'm').exec(text)?.[1] ?? ''
  return { id: field('ID'), release: field('VERSION_ID'), codename: field('VERSION_CODENAME') }
}
