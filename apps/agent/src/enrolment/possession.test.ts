// Guarantee: a state folder has one agent at a time, on the machine that it belongs to.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempDisposableSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { createLog } from '@dormouse/process'
import { expect, test } from 'vitest'
import { takeFolder } from './possession.ts'

const log = createLog({ name: 'test', level: 'silent' })
const inUse = /^another agent uses the state folder .*; stop it first/
const foreign = /belongs to another machine.*DORMOUSE_AGENT_ADOPT=true/

function stage() {
  const at = mkdtempDisposableSync(join(tmpdir(), 'dormouse-possession-'))
  const [stateDir, id, other] = ['state', 'machine-id', 'other-id'].map((name) => join(at.path, name)) as [
    string,
    string,
    string,
  ]
  writeFileSync(id, `${'a'.repeat(32)}\n`)
  const take = (machineIdFiles = [id, other], adopt = false) => takeFolder({ stateDir, adopt, log, machineIdFiles })
  return { stateDir, id, other, take, [Symbol.dispose]: () => at[Symbol.dispose]() }
}

/** Another process that takes the folder and keeps it; returns what came of it. */
async function another(stateDir: string) {
  const module = new URL('./possession.ts', import.meta.url).href
  const program = `import { takeFolder } from ${JSON.stringify(module)}
const kept = await takeFolder({ stateDir: ${JSON.stringify(stateDir)}, adopt: true, log: { warn() {} }, machineIdFiles: [] })
  .catch((error) => error)
console.log(kept instanceof Error ? kept.message : 'taken')
process.stdin.resume().on('end', () => process.exit(kept ? 0 : 1))`
  const child = spawn(process.execPath, ['--input-type=module', '-e', program], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const [said] = (await once(createInterface(child.stdout), 'line')) as [string]
  const end = async () => {
    const ended = once(child, 'exit')
    if (child.kill('SIGKILL')) await ended
  }
  return { said, end, [Symbol.asyncDispose]: end }
}

test('one of many agents that start at once has the folder; when it is killed, the next one has it', async () => {
  using on = stage()
  await using started = new AsyncDisposableStack()
  const agents = await Promise.all(Array.from({ length: 4 }, () => another(on.stateDir)))
  for (const agent of agents) started.use(agent)
  const [holder, ...more] = agents.filter(({ said }) => said === 'taken')
  expect(more).toEqual([])
  for (const { said } of agents) if (said !== 'taken') expect(said).toMatch(inUse)
  await expect(on.take()).rejects.toThrow(inUse)
  await holder?.end()
  ;(await on.take()).release()
})

test('in one process, too, one agent has it until it lets go', async () => {
  using on = stage()
  const mine = await on.take()
  expect(statSync(join(on.stateDir, 'lock')).mode & 0o777).toBe(0o600)
  await expect(on.take()).rejects.toThrow(inUse)
  mine.release()
  mine.release()
  const next = await on.take()
  await expect(on.take()).rejects.toThrow(inUse)
  next.release()
})

test('the first start binds a folder to its machine; a clone elsewhere is refused until it is adopted', async () => {
  using on = stage()
  ;(await on.take()).release()
  expect(readFileSync(join(on.stateDir, 'machine.json'), 'utf8')).not.toContain('a'.repeat(32))
  ;(await on.take()).release()
  writeFileSync(on.id, `${'b'.repeat(32)}\n`)
  await expect(on.take()).rejects.toThrow(foreign)
  // What was refused holds nothing.
  await expect(on.take()).rejects.toThrow(foreign)
  ;(await on.take(undefined, true)).release()
  ;(await on.take()).release()
})

test('a machine is known by any of its ids, and one that lost the id that counts is another', async () => {
  using on = stage()
  writeFileSync(on.id, 'uninitialized\n')
  writeFileSync(on.other, '4c4c4544-0043-3510-8052-b4c04f564d31\n')
  ;(await on.take()).release()
  // It gets the better id later.
  writeFileSync(on.id, 'c'.repeat(32))
  ;(await on.take()).release()
  rmSync(on.other)
  await expect(on.take()).rejects.toThrow(foreign)
})

test('a machine without an id binds nothing', async () => {
  using on = stage()
  ;(await on.take([])).release()
  ;(await on.take()).release()
  await expect(on.take([])).rejects.toThrow(foreign)
  // It adopts once, and not at each start.
  ;(await on.take([], true)).release()
  ;(await on.take([])).release()
})

test('a binding that cannot be read stops the agent, and names the file', async () => {
  using on = stage()
  ;(await on.take()).release()
  writeFileSync(join(on.stateDir, 'machine.json'), '{')
  await expect(on.take()).rejects.toThrow(/machine\.json cannot be read; remove it/)
})

test('a folder that cannot be used is named, with what to do', async () => {
  using folder = stage()
  // As root may write anywhere, a folder is in the place of the lock.
  mkdirSync(join(folder.stateDir, 'lock'), { recursive: true })
  await expect(folder.take()).rejects.toThrow(/EISDIR: .*state\/lock/)
})
