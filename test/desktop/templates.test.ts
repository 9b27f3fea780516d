// Guarantee: a desktop of the distribution's own system that begins with a template has its session on the screen when it is awake,
// and a name, a machine id and keys of its own.
import { join } from 'node:path'
import type { LibvirtDriver } from '@dormouse/agent/driver/libvirt/libvirt.ts'
import { type Bench, fenceOf, until } from '@dormouse/agent/testing/bench.ts'
import { newId } from '@dormouse/contract'
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
  bench.house.templates.want(id, spec)
  await bench.house.templates.settled()
}, 1_200_000)
afterAll(async () => {
  await bench?.driver.close()
  await stage?.[Symbol.asyncDispose]()
})

const look = 'hostname; cat /etc/machine-id; cut -d " " -f 2 /etc/ssh/ssh_host_ed25519_key.pub'
const session =
  'systemctl is-system-running; setpriv --reuid=user --regid=user --clear-groups /usr/lib/dormouse/desktop-ready && echo on the screen'

test('it is awake with its session, as nobody but itself', async () => {
  const seen: string[][] = []
  for (let n = 0; n < 3; n++) {
    const id = newId()
    const began = performance.now()
    expect(await bench.awake(fenceOf(id, 1, 1), 'allow', 'make', spec)).toEqual({
      resumedFrom: 'image',
      ready: true,
      path: 'template',
    })
    console.info(`first wake by a template: ${Math.round(performance.now() - began)} ms`)
    await until(async () => (await bench.run(id, session)) === 'running\non the screen', 60_000)
    seen.push((await bench.run(id, look)).split('\n'))
    expect(seen[n]![0]).toBe(`desktop-${id.slice(-12)}`)
    expect(await bench.clockError(id)).toBeLessThan(2)
    await bench.destroyed(fenceOf(id, 1, 2))
  }
  for (const part of [0, 1, 2]) expect(new Set(seen.map((each) => each[part])).size).toBe(seen.length)
})
