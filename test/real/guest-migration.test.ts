// Guarantee: a desktop that moves to another host while it runs, and back, is reached over SSH there at once; a file that
// was on its way is the old one or whole, and what was cut off leaves nothing behind.
import { randomBytes } from 'node:crypto'
import { mkdirSync, realpathSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { unknownActivity } from '@dormouse/agent/driver/guest-access.ts'
import { wholeFile } from '@dormouse/agent/driver/guest-transport.ts'
import { agentCall } from '@dormouse/agent/driver/libvirt/agent-call.ts'
import { domainName } from '@dormouse/agent/driver/libvirt/domain-xml.ts'
import type { LibvirtDriver } from '@dormouse/agent/driver/libvirt/libvirt.ts'
import { QemuGuestAgent } from '@dormouse/agent/guest-agent/agent.ts'
import { SshConnection } from '@dormouse/agent/ssh/connection.ts'
import { openOverSsh, uploadOverSsh } from '@dormouse/agent/ssh/files.ts'
import { SshKeys } from '@dormouse/agent/ssh/keys.ts'
import { openPort } from '@dormouse/agent/ssh/open-port.ts'
import { type Bench, fenceOf } from '@dormouse/agent/testing/bench.ts'
import { runOver } from '@dormouse/agent/testing/ssh-server.ts'
import { newId } from '@dormouse/contract'
import { type Domain, LibvirtHost, migrateFlag, xmlFlag } from '@dormouse/node-libvirt'
import { createLog } from '@dormouse/process'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { run } from '../../scripts/testbed/processes.ts'
import { waitFor } from '../wait-for.ts'
import { guestSpec, Stage } from './parts/agent-stage.ts'

const trips = process.env.DORMOUSE_TEST_LONG === '1' ? 5 : 1
const piece = randomBytes(256 * 1024)
const wholeBytes = 2 * piece.length

/** One side, and how a test acts on it as its agent would. */
interface Side {
  stage: Stage
  host: LibvirtHost
}

interface Held extends Side {
  connection: SshConnection
}

let sides: [Side, Side]
let bench: Bench<LibvirtDriver>
beforeAll(async () => {
  const stages = [await Stage.start(), await Stage.start()] as const
  const open = async (stage: Stage): Promise<Side> => {
    for (const name of ['disks', 'consoles', 'sockets', 'moves']) mkdirSync(room(stage, name), { recursive: true })
    return { stage, host: await LibvirtHost.open({ socketPath: stage.libvirtd.socketPath }) }
  }
  sides = [await open(stages[0]), await open(stages[1])]
  bench = await stages[0].bench('line', { socketsDir: room(stages[0], 'sockets') })
})
afterAll(async () => {
  await bench?.driver.close()
  for (const { host, stage } of sides ?? []) {
    host.close()
    await stage[Symbol.asyncDispose]()
  }
})

const room = (stage: Stage, name: string) => join(stage.libvirtd.shortDir, 'line', name)
const domainOn = ({ host }: Side, id: string): Domain =>
  host.domains.of({ uuid: id, name: domainName({ installationId: bench.installationId, desktopId: id }) })
const diskOn = ({ stage }: Side, id: string) => join(room(stage, 'disks'), `${id}.qcow2`)
const wish = (desktopId: string, command: string) => {
  return { desktopId, generation: 1, command, cwd: null, env: {}, stdin: null, timeoutSecs: 20 }
}

const agentOn = (side: Side, id: string) =>
  new QemuGuestAgent(agentCall({ agent: () => side.host.guestAgent(domainOn(side, id)), activity: unknownActivity }))

/** The only one who holds the desktop's port on that host; the keys moved along. */
const connectionOn = (side: Side, id: string) =>
  new SshConnection({
    desktopId: id,
    open: (...how) => openPort(join(room(side.stage, 'sockets'), `${id}.ssh`), ...how),
    agent: agentOn(side, id),
    keys: new SshKeys(join(bench.folder, 'guest-keys')),
    log: createLog({ name: 'line', level: 'silent' }),
  })

test('a call in progress ends at once when its desktop moves, and the next one works', async () => {
  const id = newId()
  await bench.awake(fenceOf(id, 1, 1), 'allow', 'make', guestSpec)
  await waitFor(async () => (await bench.run(id, 'tr "\\0" " " </proc/$PPID/cmdline')).includes('sshd'), 30_000)
  // Its successor dials only when it is asked for something.
  await bench.crash()
  const [home, away] = sides.map((side) => ({ ...side, connection: connectionOn(side, id) })) as [Held, Held]
  await home.connection.connect()
  await put(home.connection, '/srv/whole', 8)
  await put(home.connection, '/srv/kept', 2)
  const bootId = await bootIdOver(home.connection, id)
  for (let trip = 0; trip < trips; trip++) {
    for (const [from, to] of [
      [home, away],
      [away, home],
    ] as const) {
      await moveInMidTransfer(id, from, to, trip)
      expect(await bootIdOver(to.connection, id)).toBe(bootId)
    }
  }
  // What was cut off sweeps up after itself, in its own time.
  const left = async () => (await runOver(home.connection, wish(id, 'ls -A /srv'))).stdout
  await waitFor(async () => (await left()) === 'kept\nwhole\n', 240_000)
  home.connection.close()
  await domainOn(sides[0], id).destroy()
})

const bootIdOver = async (connection: SshConnection, id: string) =>
  (await runOver(connection, wish(id, 'cat /proc/sys/kernel/random/boot_id'))).stdout

async function put(connection: SshConnection, path: string, pieces: number): Promise<void> {
  const upload = await uploadOverSsh(connection, path, null)
  for (let i = 0; i < pieces; i++) await upload.write(piece)
  await upload.commit()
}

async function moveInMidTransfer(id: string, from: Held, to: Held, trip: number): Promise<void> {
  const ends = underWay(from.connection, id).map((work) => work.then(String, (error) => error.code))
  const { totalMs, stoppedMs } = await move(id, from, to)
  const moved = performance.now()
  expect(await Promise.all(ends)).toEqual(ends.map(() => 'guest_unavailable'))
  const noticedMs = performance.now() - moved
  // A host dials when the guest has answered through its agent: by then it has noticed that the other host is gone.
  await waitFor(
    () =>
      agentOn(to, id)
        .setTime()
        .then(() => true)
        .catch(() => false),
    10_000,
  )
  await to.connection.connect()
  const { stdout } = await runOver(to.connection, wish(id, 'wc -c </srv/kept; wc -c </srv/whole'))
  const reachedMs = performance.now() - moved
  expect(stdout.trim().split(/\s+/).map(Number)).toEqual([wholeBytes, 8 * piece.length])
  await put(to.connection, '/srv/kept', 2)
  const figures = { totalMs, stoppedMs, noticedMs, reachedMs }
  console.info(
    `trip ${trip}:`,
    Object.entries(figures)
      .map(([name, ms]) => `${name} ${Math.round(ms)}`)
      .join(', '),
  )
}

/** A command without an end, one that reads forever, a file on its way in and one on its way out. */
function underWay(connection: SshConnection, id: string): Promise<unknown>[] {
  return [
    runOver(connection, wish(id, 'yes')),
    runOver(connection, wish(id, 'cat >/dev/null; sleep 60')),
    uploadOverSsh(connection, '/srv/kept', null).then(async (upload) => {
      for (;;) await upload.write(piece)
    }),
    (async () => {
      for (;;) {
        const file = await openOverSsh(connection, '/srv/whole', wholeFile)
        while (await file.read());
      }
    })(),
  ]
}

/** A host's short name is its own; the folder behind it is every host's. */
const everywhere = (path: string) => realpathSync(path)

/** Live, with its disk, over unix sockets that both hosts see. */
async function move(id: string, from: Side, to: Side): Promise<{ totalMs: number; stoppedMs: number }> {
  const domain = domainOn(from, id)
  const xml = await domain.xml(xmlFlag.migratable)
  await makeDisk(diskOn(from, id), diskOn(to, id))
  const [here, there] = [from.stage.libvirtd.shortDir, to.stage.libvirtd.shortDir]
  const moves = everywhere(room(to.stage, 'moves'))
  const started = performance.now()
  await domain.migrateTo(`qemu+unix:///system?socket=${everywhere(to.stage.libvirtd.socketPath)}`, {
    flags: migrateFlag.live | migrateFlag.nonSharedInc,
    migrateUri: `unix://${moves}/memory`,
    disksUri: `unix://${moves}/disks`,
    xml: xml.replaceAll(here, there),
  })
  const totalMs = performance.now() - started
  const { stats } = await domainOn(to, id).jobStats({ completed: true })
  return { totalMs, stoppedMs: Number(stats.downtime) }
}

/** An overlay on the same image, as large; what lies there from a visit before is worth nothing. */
async function makeDisk(source: string, target: string): Promise<void> {
  const { 'virtual-size': bytes, 'backing-filename': image } = JSON.parse(
    await run('qemu-img', ['info', '--force-share', '--output=json', source]),
  )
  rmSync(target, { force: true })
  await run('qemu-img', ['create', '-q', '-f', 'qcow2', '-F', 'qcow2', '-b', image, target, String(bytes)])
}
