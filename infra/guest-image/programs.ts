// Copies programs and their libraries from an unpacked tree into another. The tree's own loader lists the libraries, so
// that no list has to be maintained.

import { chmodSync, copyFileSync, mkdirSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { run } from '../../scripts/testbed/processes.ts'

const libraries = 'usr/lib/x86_64-linux-gnu'
const loader = 'ld-linux-x86-64.so.2'

/** Copies programs with the libraries that they load. Paths are relative to both trees. */
export async function copyPrograms(from: string, to: string, programs: string[]): Promise<void> {
  const loaded = await Promise.all(programs.map((program) => loadedBy(from, program)))
  for (const program of programs) copy(join(from, program), join(to, program))
  for (const library of new Set(loaded.flat())) copy(library, join(to, libraries, basename(library)))
  copy(join(from, libraries, loader), join(to, 'usr/lib64', loader))
}

async function loadedBy(tree: string, program: string): Promise<string[]> {
  const paths = [libraries, `${libraries}/systemd`].map((path) => join(tree, path)).join(':')
  const listing = await run(join(tree, libraries, loader), ['--library-path', paths, '--list', join(tree, program)])
  return librariesOf(listing)
}

/** The files in a loader's listing. A missing one stops the build, so that it does not stop the guest. */
export function librariesOf(listing: string): string[] {
  const missing = /^\s*(\S+) => not found/m.exec(listing)
  if (missing) throw new Error(`${missing[1]} is in none of the packages`)
  return [...listing.matchAll(/=> (\/\S+) \(0x/g)].map(([, file]) => file!).filter((file) => basename(file) !== loader)
}

function copy(from: string, to: string): void {
  mkdirSync(dirname(to), { recursive: true })
  copyFileSync(from, to)
  chmodSync(to, 0o755)
}
