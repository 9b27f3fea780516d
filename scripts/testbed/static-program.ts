// Compiles small C programs for guests, and keeps them as text in a TypeScript file: a guest needs no compiler, and neither does
// who builds its image or the agent.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'

const flags = [
  ...['-Oz', '-std=gnu17', '-Wall', '-Wextra', '-Werror', '-static', '-nostdlib', '-ffreestanding', '-march=x86-64'],
  ...['-fno-stack-protector', '-fno-asynchronous-unwind-tables', '-fno-tree-loop-distribute-patterns', '-fno-pie'],
  ...['-no-pie', '-fcf-protection=none', '-s'],
  ...['-Wl,--build-id=none', '-Wl,-z,noseparate-code', '-Wl,-z,noexecstack'],
]

/** With another compiler the same source becomes other bytes. */
export const compiler = (): string => execFileSync('gcc', ['-dumpfullversion'], { encoding: 'utf8' }).trim()

/** The program, as this machine's compiler makes it. It has no C library. */
export function compile(source: string): Buffer {
  const folder = mkdtempSync(join(tmpdir(), 'dormouse-program-'))
  try {
    const out = join(folder, 'program')
    execFileSync('gcc', [...flags, '-o', out, source])
    return readFileSync(out)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

/** Writes the program as text, under the names `<name>Compiler` and `<name>Program`. */
export function keepAsText(name: string, source: string, file: string): void {
  const script = relative(join(import.meta.dirname, '../..'), join(dirname(source), 'build.ts'))
  const text = `// Made by ${script} from the C beside it; never edited. A static program for Linux on x86-64.

/** The compiler that made it. */
export const ${name}Compiler = '${compiler()}'

export const ${name}Program = Buffer.from(
  // biome-ignore format: one line
  '${compile(source).toString('base64')}',
  'base64',
)
`
  writeFileSync(file, text)
}
