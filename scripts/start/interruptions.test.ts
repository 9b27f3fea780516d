// Guarantee: whatever ends a run, in whatever way it was started, lets it save and stop; nothing goes on as an orphan, and
// nothing but a second Ctrl-C skips the saving.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { waitFor } from '../../test/wait-for.ts'
import { identify } from '../testbed/processes.ts'

/** A program with our signals, started by the real npm script and the real with-node.sh. It saves when it is to end. */
const program = `
import { existsSync, appendFileSync, writeFileSync } from 'node:fs'
import { interruptions } from '${join(import.meta.dirname, 'interruptions.ts')}'
const interrupted = interruptions()
setInterval(() => undefined, 1_000)
writeFileSync('pid', String(process.pid))
await interrupted.promise
console.log('saving')
writeFileSync('saving', '')
while (!existsSync('may-end') && !interrupted.second.aborted) await new Promise((resolve) => setTimeout(resolve, 20))
console.log('saved')
writeFileSync('ended', interrupted.second.aborted ? 'skipped' : 'saved')
process.exit(0)`

const root = join(import.meta.dirname, '../..')
let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'dormouse-signals-'))
  mkdirSync(join(folder, 'scripts'))
  copyFileSync(join(root, 'scripts/with-node.sh'), join(folder, 'scripts/with-node.sh'))
  writeFileSync(join(folder, 'scripts/start.ts'), program)
  mkdirSync(join(folder, 'node_modules/.bin'), { recursive: true })
  symlinkSync(process.execPath, join(folder, 'node_modules/.bin/node'))
  for (const name of ['package-lock.json', 'node_modules/.dormouse-lock']) writeFileSync(join(folder, name), '{}')
  writeFileSync(join(folder, 'node_modules/.dormouse-have'), 'runtime')
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ type: 'module', scripts: { start: scripts.start } }))
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const read = (name: string) => {
  try {
    return readFileSync(join(folder, name), 'utf8')
  } catch {
    return undefined
  }
}

/** Starts it, signals its end, lets it save, and returns how that went. */
async function ended(command: string[], ask: (npm: ChildProcess) => void): Promise<string> {
  for (const name of ['pid', 'saving', 'ended', 'may-end']) rmSync(join(folder, name), { force: true })
  const npm = spawn(command[0]!, command.slice(1), { cwd: folder, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
  const gone = once(npm, 'close')
  npm.stdout.resume()
  npm.stderr.resume()
  const pid = await waitFor('the program', () => Number(read('pid')) || undefined)
  try {
    ask(npm)
    await waitFor('it to save', () => read('saving') !== undefined)
    writeFileSync(join(folder, 'may-end'), '')
    const how = await waitFor('its end', () => read('ended'))
    await gone
    return how
  } finally {
    kill(pid, 'SIGKILL')
  }
}

function kill(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch {}
}

const npm = ['npm', 'start']

test.each<[string, (npm: ChildProcess) => void]>([
  ['SIGTERM to npm', ({ pid }) => kill(pid!, 'SIGTERM')],
  ['SIGHUP to npm', ({ pid }) => kill(pid!, 'SIGHUP')],
  ['Ctrl-C, which reaches the program twice', ({ pid }) => kill(-pid!, 'SIGINT')],
  ['a closed terminal', ({ pid }) => kill(-pid!, 'SIGHUP')],
  [
    'readers that are gone',
    ({ pid, stdout, stderr }) => {
      stdout!.destroy()
      stderr!.destroy()
      kill(-pid!, 'SIGHUP')
    },
  ],
])('%s', async (_what, ask) => {
  expect(await ended(npm, ask)).toBe('saved')
})

test.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)('%s while packages are installed ends that', async (name) => {
  const bin = join(folder, 'slow')
  mkdirSync(bin, { recursive: true })
  writeFileSync(join(bin, 'npm'), `#!/bin/sh\necho $$ >"${folder}/pid"\nexec sleep 1000`, { mode: 0o755 })
  rmSync(join(folder, 'pid'), { force: true })
  writeFileSync(join(folder, 'package-lock.json'), '{"changed":true}')
  const shell = spawn('sh', [join(folder, 'scripts/with-node.sh'), 'scripts/start.ts'], {
    stdio: 'ignore',
    env: { PATH: `${bin}:${process.env.PATH}` },
  })
  const gone = once(shell, 'close')
  const pid = await waitFor('npm', () => Number(read('pid')) || undefined)
  try {
    shell.kill(name)
    await gone
    await waitFor('npm to end', () => identify(pid) === undefined)
  } finally {
    kill(pid, 'SIGKILL')
  }
})
