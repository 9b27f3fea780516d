// Compiles the supervisor, and writes it as text into the agent's scripts: `node apps/agent/supervisor/build.ts`. A guest needs
// no compiler, and neither does who builds the agent.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const here = import.meta.dirname
const flags = [
  ...['-Os', '-std=gnu17', '-Wall', '-Wextra', '-Werror', '-static', '-nostdlib', '-ffreestanding', '-march=x86-64'],
  ...['-fno-stack-protector', '-fno-asynchronous-unwind-tables', '-fno-tree-loop-distribute-patterns', '-fno-pie'],
  ...['-no-pie', '-fcf-protection=none', '-s'],
  ...['-Wl,--build-id=none', '-Wl,-z,noseparate-code', '-Wl,-z,noexecstack'],
]

/** With another compiler the same source becomes other bytes. */
export const compiler = (): string => execFileSync('gcc', ['-dumpfullversion'], { encoding: 'utf8' }).trim()

/** The program, as this machine's compiler makes it. */
export function build(): Buffer {
  const folder = mkdtempSync(join(tmpdir(), 'dormouse-supervisor-'))
  try {
    const out = join(folder, 'supervisor')
    execFileSync('gcc', [...flags, '-o', out, 'main.c'], { cwd: here })
    return readFileSync(out)
  } finally {
    rmSync(folder, { recursive: true })
  }
}

if (process.argv[1] === import.meta.filename) {
  const text = `// Made by apps/agent/supervisor/build.ts from the C beside it; never edited. A static program for Linux on x86-64.

/** The compiler that made it. */
export const supervisorCompiler = '${compiler()}'

export const supervisorProgram = Buffer.from(
  // biome-ignore format: one line
  '${build().toString('base64')}',
  'base64',
)
`
  writeFileSync(join(here, '../src/scripts/supervisor-program.ts'), text)
}
