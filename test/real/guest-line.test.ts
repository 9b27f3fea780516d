// Guarantee: however abruptly a connection to a guest's port ends, the next one comes up, and is whole.

import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { join } from 'node:path'
import type { GuestChannel } from '@dormouse/agent/driver/guest-connection.ts'
import { wholeFile } from '@dormouse/agent/driver/guest-transport.ts'
import { agentCall } from '@dormouse/agent/driver/libvirt/agent-call.ts'
import { domainName } from '@dormouse/agent/driver/libvirt/domain-xml.ts'
import type { LibvirtDriver } from '@dormouse/agent/driver/libvirt/libvirt.ts'
import { QemuProcesses } from '@dormouse/agent/driver/libvirt/qemu-processes.ts'
import { QemuGuestAgent } from '@dormouse/agent/guest-agent/agent.ts'
import { SshConnection } from '@dormouse/agent/ssh/connection.ts'
import { openOverSsh, uploadOverSsh } from '@dormouse/agent/ssh/files.ts'
import { SshKeys } from '@dormouse/agent/ssh/keys.ts'
import { openPort } from '@dormouse/agent/ssh/open-port.ts'
import { type Bench, fenceOf } from '@dormouse/agent/testing/bench.ts'
import { runOver } from '@dormouse/agent/testing/ssh-server.ts'
import { newId } from '@dormouse/contract'
import { LibvirtHost } from '@dormouse/node-libvirt'
import { createLog } from '@dormouse/process'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { waitFor } from '../wait-for.ts'
import { guestSpec, Stage } from './parts/agent-stage.ts'

const long = process.env.DORMOUSE_TEST_LONG === '1'
const closes = long ? 250 : 30
/** Desktops at once, each with this many closes. */
const lines = long ? 4 : 1

let stage: Stage
let bench: Bench<LibvirtDriver>
let host: LibvirtHost
beforeAll(async () => {
  stage = await Stage.start()
  bench = await stage.bench('line', { socketsDir: join(stage.libvirtd.shortDir, 'line-sockets') })
  host = await LibvirtHost.open({ socketPath: stage.libvirtd.socketPath })
})
afterAll(async () => {
  host?.close()
  await bench?.driver.close()
  await stage?.[Symbol.asyncDispose]()
})

const wish = (desktopId: string, command: string) => {
  return { desktopId, generation: 1, command, cwd: null, env: {}, stdin: null, timeoutSecs: 20 }
}

const nameOf = (id: string) => domainName({ installationId: bench.installationId, desktopId: id })
const domain = (id: string) => host.domains.of({ uuid: id, name: nameOf(id) })
const processes = new QemuProcesses()
const activityOf = (id: string) => processes.activity(nameOf(id))

/** A desktop that is awake and has our key. */
async function awakeDesktop(): Promise<string> {
  const id = newId()
  await bench.awake(fenceOf(id, 1, 1), 'allow', 'make', guestSpec)
  await bench.run(id, 'true')
  return id
}

/** The only one who holds the desktop's port. */
const connectionTo = (id: string) =>
  new SshConnection({
    desktopId: id,
    open: (...how) => openPort(join(stage.libvirtd.shortDir, 'line-sockets', `${id}.ssh`), ...how),
    agent: new QemuGuestAgent(agentCall({ agent: () => host.guestAgent(domain(id)), activity: activityOf(id) })),
    activity: activityOf(id),
    keys: new SshKeys(join(bench.folder, 'guest-keys')),
    log: createLog({ name: 'line', level: 'silent' }),
  })

const name = `${lines * closes} abrupt ends in the middle of transfers, and each time the next connection is whole`
test(name, { timeout: 1_800_000 }, async () => {
  const free = await Promise.all(Array.from({ length: lines }, awakeDesktop))
  // Its successor dials only when it is asked for something.
  await bench.crash()
  const cameBackMs = (await Promise.all(free.map(closeAbruptly))).flat().sort((a, b) => a - b)
  const of = (part: number) => Math.round(cameBackMs[Math.floor(cameBackMs.length * part)]!)
  const longest = Math.round(cameBackMs.at(-1)!)
  console.info(`${cameBackMs.length} closes; back after p50 ${of(0.5)} ms, p99 ${of(0.99)} ms, longest ${longest} ms`)
})

/** How long each next connection took, in ms. */
async function closeAbruptly(id: string): Promise<number[]> {
  const connection = connectionTo(id)
  const bytes = randomBytes(256 * 1024)
  const hash = createHash('sha256').update(bytes).digest('hex')
  const under: (() => Promise<unknown>)[] = [
    () => runOver(connection, wish(id, 'yes')),
    () => runOver(connection, wish(id, 'cat >/dev/null; sleep 5')),
    async () => {
      const upload = await uploadOverSsh(connection, '/srv/cut', null)
      for (;;) await upload.write(bytes)
    },
    async () => {
      const file = await openOverSsh(connection, '/srv/whole', wholeFile)
      while (await file.read());
    },
  ]
  await connection.connect()
  const whole = await uploadOverSsh(connection, '/srv/whole', null)
  for (let i = 0; i < 16; i++) await whole.write(bytes)
  await whole.commit()
  const cameBackMs: number[] = []
  for (let i = 0; i < closes; i++) {
    const work = under.map((begin) => begin().catch(() => undefined))
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 150))
    connection.close()
    await Promise.all(work)
    const started = performance.now()
    await waitFor(
      () =>
        connection.connect().then(
          () => true,
          () => false,
        ),
      30_000,
    )
    cameBackMs.push(performance.now() - started)
    if (cameBackMs.length % 25 === 0) console.info(`${id}: ${cameBackMs.length} of ${closes} closes`)
    const result = await runOver(connection, wish(id, 'head -c 262144 /srv/whole | sha256sum'))
    expect(result.stdout.slice(0, 64)).toBe(hash)
  }
  // What was cut off sweeps up after itself, in its own time.
  const left = async () => (await runOver(connection, wish(id, 'ls -A /srv'))).stdout.trim()
  if (long) await waitFor(async () => (await left()) === 'whole', 240_000)
  connection.close()
  return cameBackMs
}

test('a guest that lost the host’s key, or changed its own, is reached again through its agent', async () => {
  const id = await awakeDesktop()
  await bench.crash()
  const connection = connectionTo(id)
  await connection.connect()
  await runOver(connection, wish(id, 'rm -f /etc/dormouse/authorized_keys'))
  connection.close()
  await connection.connect()
  await runOver(
    connection,
    wish(id, 'cd /etc/ssh; rm -f ssh_host_ed25519_key*; ssh-keygen -q -t ed25519 -N "" -f ssh_host_ed25519_key'),
  )
  connection.close()
  await connection.connect()
  const own = (await runOver(connection, wish(id, 'cat /etc/ssh/ssh_host_ed25519_key.pub'))).stdout
  const known = (await new SshKeys(join(bench.folder, 'guest-keys')).read(id))?.hostKey
  expect(own.split(' ')[1]).toBe(known)
  connection.close()
})

test('a guest whose root has a shell that greets runs commands and moves files like any other', async () => {
  const id = await awakeDesktop()
  await bench.crash()
  const connection = connectionTo(id)
  await connection.connect()
  const greeter = `#!/bin/sh\necho Welcome\necho '3 updates' >&2\nexec /bin/sh "$@"\n`
  const script = `printf %s '${greeter.replaceAll("'", `'\\''`)}' >/bin/greeter; chmod 755 /bin/greeter`
  await runOver(connection, wish(id, `${script}; sed -i '/^root:/s#[^:]*$#/bin/greeter#' /etc/passwd`))
  connection.close()
  await connection.connect()
  expect(await runOver(connection, wish(id, 'echo out; echo err >&2'))).toMatchObject({
    stdout: 'out\n',
    stderr: 'err\n',
  })
  const late = runOver(connection, { ...wish(id, 'exec sleep 77'), timeoutSecs: 1 })
  await expect(late).rejects.toMatchObject({ code: 'guest_deadline' })
  expect((await runOver(connection, wish(id, "ps | grep -c '[s]leep 77' || :"))).stdout).toBe('0\n')
  const upload = await uploadOverSsh(connection, '/srv/greeted', null)
  await upload.write(Buffer.from('bytes'))
  await upload.commit()
  expect((await (await openOverSsh(connection, '/srv/greeted', wholeFile)).read())?.toString()).toBe('bytes')
  connection.close()
})

test('ten streams that pause hold up no command, and each gets every byte', { timeout: 600_000 }, async () => {
  const id = await awakeDesktop()
  await bench.crash()
  const connection = connectionTo(id)
  await connection.connect()
  // More than both ends keep of a stream that nobody reads.
  const bytes = 8 * 1024 * 1024
  const channels: GuestChannel[] = []
  const ends: Promise<{ got: number; code: number | null }>[] = []
  for (let at = 0; at < 10; at++) {
    await connection.openChannel(`exec head -c ${bytes} /dev/zero`, (channel) => {
      let [got, code]: [number, number | null] = [0, null]
      channel.on('data', (chunk: Buffer) => {
        got += chunk.length
      })
      channel.pause().once('exit', (given: number | null) => {
        code = given
      })
      channels.push(channel)
      ends.push(once(channel, 'close').then(() => ({ got, code })))
    })
  }
  let unread = 0
  await waitFor(
    'all to stand still',
    async () => {
      const before = unread
      await new Promise((resolve) => setTimeout(resolve, 1_000))
      unread = channels.reduce((sum, channel) => sum + channel.readableLength, 0)
      return unread > 0 && unread === before
    },
    300_000,
  )
  const running = await runOver(connection, wish(id, `ps -o args | grep -c '[h]ead -c ${bytes}'`))
  expect(running.stdout).toBe('10\n')
  for (const channel of channels) channel.resume()
  expect(await Promise.all(ends)).toEqual(Array(10).fill({ got: bytes, code: 0 }))
  connection.close()
})
