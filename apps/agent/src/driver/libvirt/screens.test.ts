// Guarantee: a screen that breaks off before anybody looks at it ends nothing but itself. (Screens: test/real/stream.test.ts.)
import { once } from 'node:events'
import { mkdtempDisposableSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Domain } from '@dormouse/node-libvirt'
import { expect, test } from 'vitest'
import { openScreen } from './screens.ts'

test('a screen that is reset closes, and ends nobody', async () => {
  using folder = mkdtempDisposableSync(join(tmpdir(), 'dormouse-screen-'))
  const path = join(folder.path, 'vnc')
  const server = createServer({ pauseOnConnect: true }).listen(path)
  const opened = once(server, 'connection')
  const xml = `<graphics type='vnc'><listen type='socket' socket='${path}'/></graphics>`
  const screen = await openScreen({ xml: async () => xml } as unknown as Domain)
  const [qemu] = (await opened) as [Socket]
  // What nobody has read makes a reset of a close.
  await new Promise((written) => screen.write('words', written))
  qemu.destroy()
  await expect.poll(() => screen.destroyed).toBe(true)
  server.close()
})
