// Kernel modules: those that a set of names needs, in load order, as bytes that BusyBox can load. Reads the modules
// themselves, since a kernel's index is only created when the kernel is installed.

import { execFileSync } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { zstdDecompressSync } from 'node:zlib'

export type Module = { name: string; bytes: Buffer }

/** The modules that these names need, dependencies first. Modules that are built into the kernel are left out. */
export function loadOrder(folder: string, names: string[]): Module[] {
  const files = new Map(
    globSync('**/*.ko{,.xz,.zst}', { cwd: folder }).map((file) => [nameOf(file), join(folder, file)]),
  )
  const builtIn = new Set(readFileSync(join(folder, 'modules.builtin'), 'utf8').split('\n').map(nameOf))
  const order = new Map<string, Module>()
  const add = (name: string) => {
    if (order.has(name) || builtIn.has(name)) return
    const file = files.get(name)
    if (!file) throw new Error(`the kernel has no module ${name}`)
    const bytes = unpacked(file)
    dependsOn(bytes).forEach(add)
    order.set(name, { name, bytes })
  }
  names.map(nameOf).forEach(add)
  return [...order.values()]
}

/** Hyphens and underscores are equivalent in module names. */
function nameOf(file: string): string {
  return basename(file)
    .replace(/\.ko(\.xz|\.zst)?$/, '')
    .replaceAll('-', '_')
}

function unpacked(file: string): Buffer {
  if (file.endsWith('.zst')) return zstdDecompressSync(readFileSync(file))
  if (file.endsWith('.xz')) return execFileSync('busybox', ['xzcat', file], { maxBuffer: 1 << 28 })
  return readFileSync(file)
}

/** The dependencies in a module's .modinfo section. */
export function dependsOn(bytes: Buffer): string[] {
  const start = bytes.indexOf('\0depends=')
  if (start < 0) return []
  const list = bytes.toString('latin1', start + '\0depends='.length, bytes.indexOf(0, start + 1))
  return list.split(',').filter(Boolean).map(nameOf)
}
