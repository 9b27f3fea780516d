import { expect, test } from 'vitest'
import { readCapabilities } from './capabilities.ts'

const guest = (arch: string, domain: string) => `<guest><os_type>hvm</os_type><arch name='${arch}'>
  <emulator>/usr/bin/qemu-system-${arch}</emulator>
  <machine maxCpus='255'>pc-i440fx-7.2</machine>
  <machine canonical='pc-i440fx-7.2' maxCpus='255'>pc</machine>
  <machine canonical='pc-q35-7.2' maxCpus='288'>q35</machine>
  <domain type='qemu'/>${domain}</arch></guest>`

test('the emulator, versioned machines and KVM are those of x86_64', () => {
  const xml = `<capabilities>${guest('i686', "<domain type='kvm'/>")}${guest('x86_64', '')}</capabilities>`
  const found = readCapabilities(xml)
  expect(found).toMatchObject({ emulator: '/usr/bin/qemu-system-x86_64', kvm: false })
  expect(found?.machines.get('pc')).toBe('pc-i440fx-7.2')
  expect(found?.machines.get('q35')).toBe('pc-q35-7.2')
  expect(readCapabilities(`<capabilities>${guest('x86_64', "<domain type='kvm'/>")}</capabilities>`)?.kvm).toBe(true)
})

test('a host without QEMU for x86_64 has no capabilities for us', () => {
  expect(readCapabilities(`<capabilities>${guest('aarch64', '')}</capabilities>`)).toBeUndefined()
})
