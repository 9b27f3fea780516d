// Guarantee: a simulated guest runs real programs, sees nothing of its machine but these, and leaves nothing behind.
import { execFile, spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { newId } from '@dormouse/contract'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { until } from '../../testing/bench.ts'
import { GuestContainers } from './containers.ts'

const id = newId()
let folder: string
let containers: GuestContainers
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'containers-'))
  containers = new GuestContainers(folder)
})
afterEach(() => {
  containers.end(id)
  containers.close()
  rmSync(folder, { recursive: true, force: true })
})

const make = (of = containers) => of.make(id, 'the boot id', async () => undefined)
const run = async (script: string, of = containers) => (await of.run(id, script)).stdout.toString()

/** The guest's processes, as this machine numbers them; of these, those that are not its first. */
async function processes(): Promise<() => number[]> {
  const namespace = (await run('readlink /proc/self/ns/pid')).trim()
  return () =>
    readdirSync('/proc')
      .map(Number)
      .filter((pid) => pid > 0 && namespaceOf(pid) === namespace)
}

/** Undefined for another user's process, and for one that has ended. */
function namespaceOf(pid: number): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/ns/pid`)
  } catch {
    return undefined
  }
}

test('programs run as root of their own system; the machine’s files, processes and network are not in it', async () => {
  await make()
  expect(await run('id -u; cat /proc/sys/kernel/random/boot_id; echo kept >/root/note')).toBe('0\nthe boot id\n')
  expect(readFileSync(join(folder, 'disks', id, 'root/note'), 'utf8')).toBe('kept\n')
  expect(await run(`ls ${folder}; touch /usr/x /bin/x; ls /tmp /run/user /home`)).toBe('/home:\n\n/tmp:\n')
  expect(Number(await run('ls /proc | grep -c "^[0-9]"'))).toBeLessThan(10)
  expect(await run('tail -n +3 /proc/net/dev | grep -cv lo:')).toBe('0\n')
  expect(await run('echo 1 >/proc/sys/vm/drop_caches || echo refused')).toBe('refused\n')
})

test('a channel carries bytes both ways, and ends with its script', async () => {
  await make()
  const channel = containers.enter(id, 'head -c 1000000; echo err >&2; exit 7')
  const exits: (number | null)[] = []
  channel.on('exit', (code) => exits.push(code))
  const closed = new Promise((resolve) => channel.once('close', resolve))
  channel.write(Buffer.alloc(1_000_000, 'x'))
  expect(await Promise.all([text(channel), text(channel.stderr)])).toEqual(['x'.repeat(1_000_000), 'err\n'])
  await closed
  expect(exits).toEqual([7])
})

test('a script whose channel is closed goes on, and has no exit', async () => {
  await make()
  const channel = containers.enter(id, 'echo; sleep 0.1; echo on >/run/on')
  const exits: unknown[] = []
  channel.on('exit', (code) => exits.push(code))
  await new Promise((resolve) => channel.once('data', resolve))
  containers.cut(id)
  await new Promise((resolve) => channel.once('close', resolve))
  await until(async () => (await run('cat /run/on 2>/dev/null')) === 'on\n')
  expect(exits).toEqual([])
})

test('a saved memory has its processes until they have run since; then it has its files', async () => {
  await make()
  await run('echo memory >/run/note; echo disk >/root/note; sleep 86400 >/dev/null 2>&1 & echo $! >/run/pid')
  const isUp = 'kill -0 "$(cat /run/pid)" 2>/dev/null && echo up'
  containers.freeze(id)
  const memory = await containers.packMemory(id)
  containers.noteSave(id, 'one')
  containers.leave(id)
  containers.restore(id, memory, 'one')
  containers.thaw(id)
  await make()
  expect(await run(isUp)).toBe('up\n')
  await run('echo later >/run/note; echo later >/root/note')
  containers.restore(id, memory, 'one')
  await make()
  expect(await run(`cat /run/note /root/note; ${isUp}`)).toBe('memory\nlater\n')
  containers.leave(id)
  await make()
  expect(await run('cat /run/note /root/note 2>/dev/null')).toBe('later\n')
})

test('another agent finds it; its end, and that of its folder, leave no process and no mount', async () => {
  await make()
  containers.close()
  const next = new GuestContainers(folder)
  expect(next.open()).toEqual([])
  await run('sleep 86400 >/dev/null 2>&1 &', next)
  const left = await processes()
  expect(left().length).toBeGreaterThan(1)
  expect(readFileSync('/proc/self/mountinfo', 'utf8')).not.toContain(folder)
  next.end(id)
  await until(() => left().length === 0)

  await make(next)
  const again = await processes()
  next.close()
  expect(again().length).toBeGreaterThan(0)
  rmSync(folder, { recursive: true })
  await until(() => again().length === 0)
})

test('one that has ended by itself is reported to the next agent', async () => {
  await make()
  const left = await processes()
  await until(() => {
    const [pid] = left()
    if (pid !== undefined) spawnSync('kill', ['-KILL', `${pid}`])
    return pid === undefined
  })
  containers.close()
  expect(new GuestContainers(folder).open()).toEqual([id])
  expect(containers.has(id)).toBe(false)
})

test('a disk travels with modes that its owner cannot pass', async () => {
  await make()
  await run('mkdir -m 0 /srv/closed; echo x >/srv/closed/x; chmod 0 /srv/closed/x')
  const disk = await containers.packDisk(id)
  containers.end(id)
  containers.removeDisk(id)
  await containers.unpackDisk(id, disk!)
  await make()
  expect(await run('stat -c %a /srv/closed /srv/closed/x; cat /srv/closed/x')).toBe('0\n0\nx\n')
})

test('if the machine forbids namespaces, that is what a call is told', async () => {
  const module = new URL('./containers.ts', import.meta.url).href
  const program = `import { GuestContainers } from ${JSON.stringify(module)}
const made = new GuestContainers(${JSON.stringify(folder)}).make(${JSON.stringify(id)}, 'boot', async () => undefined)
await made.catch(({ code, detail }) => console.log(code, detail))`
  const forbid = 'echo 0 >/proc/sys/user/max_user_namespaces; exec "$0" --input-type=module -e "$1"'
  const args = ['--user', '--map-root-user', '/bin/sh', '-c', forbid, process.execPath, program]
  const { stdout } = await promisify(execFile)('unshare', args)
  expect(stdout).toMatch(
    /^exec_unsupported a simulated guest needs user namespaces, which this machine refuses \(unshare: .+\)/,
  )
})
