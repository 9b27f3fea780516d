// Guarantee: a desktop of the distribution's own system that begins with a template has its session on the screen when it is awake,
// and a name, a machine id, keys and random numbers of its own.
import { createReadStream } from 'node:fs'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import type { LibvirtDriver } from '@dormouse/agent/driver/libvirt/libvirt.ts'
import { type Bench, fenceOf, until } from '@dormouse/agent/testing/bench.ts'
import { newId } from '@dormouse/contract'
import { Channel } from '@dormouse/link'
import { joined } from '@dormouse/link/testing'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ensureDesktopImage } from '../../infra/guest-image/desktop.ts'
import { Stage } from '../real/parts/agent-stage.ts'

const imagesDir = join(import.meta.dirname, '../../.dormouse-test/images')
const spec = { vcpus: 2, memoryMiB: 1024, diskGiB: 8, imageVersion: 'desktop' }

let stage: Stage
let bench: Bench<LibvirtDriver>
beforeAll(async () => {
  await ensureDesktopImage({ imagesDir, say: console.log })
  stage = await Stage.start()
  const settings = { socketsDir: join(stage.libvirtd.shortDir, 'sockets') }
  bench = await stage.bench('desktops', settings, undefined, undefined, undefined, 8_000)
  const id = newId()
  await bench.ask('desktop.ensureDisk', { fence: fenceOf(id, 1, 1), spec, disk: 'make' })
  bench.parts.templates.want(id, spec)
  await bench.parts.templates.settled()
}, 1_200_000)
afterAll(async () => {
  await bench?.driver.close()
  await stage?.[Symbol.asyncDispose]()
})

const many = 5
const session =
  'systemctl is-system-running; setpriv --reuid=user --regid=user --clear-groups /usr/lib/dormouse/desktop-ready && echo on the screen'

const python = `import ctypes, os, random, secrets, tempfile, uuid
made = ctypes.create_string_buffer(16)
ctypes.CDLL('libuuid.so.1').uuid_generate(made)
print(os.getrandom(1024).hex(), os.urandom(1024).hex(), random.getrandbits(256), secrets.token_hex(32), sep='\\n')
print(uuid.uuid4(), made.raw.hex(), tempfile.mktemp(), sep='\\n')`
const node = `const { randomBytes, randomUUID } = require('node:crypto')
console.log([randomBytes(1024).toString('hex'), randomUUID(), Math.random()].join('\\n'))`

/** Each line must be another one in each guest; the first that its first program reads. What uuidgen prints is libuuid's. */
const look = `head -c 1024 /dev/urandom | base64 -w 0; echo
python3 -c "${python}"
/opt/node -e "${node}"
mktemp -u
cat /proc/sys/kernel/random/uuid
ssh-keygen -q -t ed25519 -N '' -f /tmp/new && cut -d ' ' -f 2 /tmp/new.pub
cut -d ' ' -f 2 /etc/ssh/ssh_host_ed25519_key.pub
cat /etc/machine-id
cat /etc/dormouse/authorized_keys
hostname`

/** Node is not in the image. */
async function putNode(desktopId: string): Promise<void> {
  const end = (socket: ConstructorParameters<typeof Channel>[0]) => new Channel(socket)
  await using joint = await joined(end, end)
  bench.dialBack = async () => joint.right
  const body = { path: '/opt/node', mode: 0o755, owner: null }
  const steps = { channel: 'channel-of-a-test', stepTimeoutSecs: 60, queueTimeoutSecs: 60 }
  const written = bench.ask('guest.stream', { desktopId, generation: 1, stream: 'file.write', body, ...steps })
  await Promise.all([written, pipeline(createReadStream(process.execPath), joint.left)])
}

test('it is awake with its session, as nobody but itself', async () => {
  const seen: string[][] = []
  for (let n = 0; n < many; n++) {
    const id = newId()
    const began = performance.now()
    expect(await bench.awake(fenceOf(id, 1, 1), 'allow', 'make', spec)).toEqual({
      resumedFrom: 'image',
      ready: true,
      path: 'template',
    })
    console.info(`first wake by a template: ${Math.round(performance.now() - began)} ms`)
    expect(await bench.run(id, 'cat /sys/class/net/*/address')).toBe('00:00:00:00:00:00')
    const early = await bench.run(id, 'head -c 1024 /dev/urandom | base64 -w 0')
    await until(async () => (await bench.run(id, session)) === 'running\non the screen', 60_000)
    await putNode(id)
    seen.push([early, ...(await bench.run(id, look)).split('\n')])
    expect(seen[n]).toHaveLength(19)
    expect(seen[n]!.at(-1)).toBe(`desktop-${id.slice(-12)}`)
    expect(await bench.clockError(id)).toBeLessThan(2)
    await bench.destroyed(fenceOf(id, 1, 2))
  }
  const all = seen.flat()
  expect(new Set(all).size).toBe(all.length)
})
