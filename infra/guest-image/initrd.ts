// The initrd of every image: a script with the modules that it needs to find the disk and boot from it.

import { copyFileSync, cpSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { quote } from '../../scripts/testbed/namespaces.ts'
import { run } from '../../scripts/testbed/processes.ts'
import type { Module } from './modules.ts'

const here = import.meta.dirname

/** Built in the folder `root`. Not compressed: an emulated guest reads it faster than it decompresses it. */
export async function writeInitrd(root: string, busybox: string, modules: Module[], file: string): Promise<void> {
  for (const each of ['bin', 'dev', 'mnt', 'lib/modules']) mkdirSync(join(root, each), { recursive: true })
  cpSync(join(here, 'initrd'), root, { recursive: true })
  copyFileSync(busybox, join(root, 'bin/busybox'))
  writeModules(modules, join(root, 'lib/modules'))
  await run('/bin/sh', ['-c', `find . | busybox cpio -o -H newc -R 0:0 > ${quote(file)}`], { cwd: root })
}

/** The names have the load order. */
export function writeModules(modules: Module[], folder: string): void {
  for (const [i, { name, bytes }] of modules.entries()) {
    writeFileSync(join(folder, `${String(i).padStart(2, '0')}-${name}.ko`), bytes)
  }
}
