// Guarantee: no save begins before QEMU has let go of the clipboard's port. (With guests: test/real/agent-clipboard.test.ts.)
import { type Domain, LibvirtError } from '@dormouse/node-libvirt'
import { createLog } from '@dormouse/process'
import { expect, test } from 'vitest'
import { withoutClipboard } from './clipboard.ts'
import { clipboardXml } from './domain-xml.ts'

const log = createLog({ name: 'clipboard', level: 'silent' })

/** A domain whose port is there for this many more looks; detaching it does what `detachDevice` does. */
function domainWith(looks: number, detachDevice = async () => undefined) {
  const did: string[] = []
  const domain = {
    xml: async () => (looks-- > 0 ? clipboardXml : '<domain/>'),
    detachDevice,
    attachDevice: async () => void did.push('attached'),
  }
  const saved = withoutClipboard(domain as unknown as Domain, log, async () => {
    did.push(`saved, ${Math.max(looks, 0)} looks left`)
  })
  return { did, saved }
}

test('a port that goes late is waited for', async () => {
  const { did, saved } = domainWith(5)
  await saved
  expect(did).toEqual(['saved, 0 looks left'])
})

test('a port that cannot be unplugged is said to be what keeps the memory from being saved', async () => {
  const failing = async () => {
    throw new LibvirtError({ code: 1, domain: 1, level: 2, message: 'unplug failed', procedure: 'domainDetachDevice' })
  }
  const { did, saved } = domainWith(5, failing)
  await expect(saved).rejects.toMatchObject({ code: 'hypervisor_failed', detail: expect.stringContaining('clipboard') })
  expect(did).toEqual([])
})
