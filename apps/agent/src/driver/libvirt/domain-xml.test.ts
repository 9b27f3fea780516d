import { newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
import {
  domainXml,
  markXml,
  overlayXml,
  poolFolderOf,
  poolXml,
  readMark,
  sshSocketOf,
  wakeSocketOf,
} from './domain-xml.ts'
import { macOf, readNic } from './network-xml.ts'

const mark = { installationId: newId(), desktopId: newId(), generation: 3, turn: 7, operationId: newId() }
const plan = {
  spec: { vcpus: 2, memoryMiB: 512, diskGiB: 10, imageVersion: 'mini' },
  mark,
  type: 'qemu',
  emulator: '/usr/bin/qemu-system-x86_64',
  machine: 'pc-i440fx-7.2',
  cpuModel: 'qemu64',
  kernel: '/images/mini/vmlinuz',
  initrd: '/images/mini/initrd',
  cmdline: `quiet name='a&b'`,
  disk: '/disks/one.qcow2',
  console: '/consoles/one.log',
  nic: null,
  vncSocket: null,
} as const

test('a mark is read back from an element, from a domain, and as libvirt writes it', () => {
  expect(readMark(markXml(mark))).toEqual(mark)
  expect(readMark(domainXml(plan))).toEqual(mark)
  expect(readMark(domainXml(plan).replaceAll("'", '"'))).toEqual(mark)
  expect(readMark('<domain><metadata/></domain>')).toBeUndefined()
})

test('the domain’s id is the desktop’s, and its name carries the installation', () => {
  const xml = domainXml(plan)
  expect(xml).toContain(`<uuid>${mark.desktopId}</uuid>`)
  expect(xml).toContain(`<name>dormouse-${mark.installationId.slice(-12)}-${mark.desktopId}</name>`)
})

test('what would be markup in a value stays text', () => {
  expect(domainXml(plan)).toContain('<cmdline>quiet name=&#39;a&#38;b&#39;</cmdline>')
  const odd = `/pool/it's <here> & "there"`
  expect(poolFolderOf(poolXml('p', odd))).toBe(odd)
  expect(overlayXml('v', 1, odd)).toContain('<path>/pool/it&#39;s &#60;here&#62; &#38; &#34;there&#34;</path>')
})

test('a guest has no network unless one is given', () => {
  expect(domainXml(plan)).not.toContain('<interface')
  const nic = { network: 'dormouse-net', mac: macOf(mark.desktopId), ip: '10.99.7.2' }
  expect(readNic(domainXml({ ...plan, nic }))).toEqual(nic)
})

test('the port for SSH is there where the image has a use for it, and its socket is found again', () => {
  expect(domainXml(plan)).not.toContain('org.dormouse.ssh.0')
  const bound = domainXml({ ...plan, sshSocket: `/run/it's/one.ssh` })
  expect(sshSocketOf(bound)).toBe(`/run/it's/one.ssh`)
  expect(sshSocketOf(bound.replaceAll("'", '"'))).toBe(`/run/it's/one.ssh`)
  const chosen = domainXml({ ...plan, sshSocket: null })
  expect(chosen).toContain('org.dormouse.ssh.0')
  expect(sshSocketOf(chosen)).toBeUndefined()
  const both = domainXml({ ...plan, sshSocket: '/run/one.ssh', wakeSocket: '/run/one.wake' })
  expect([sshSocketOf(both), wakeSocketOf(both)]).toEqual(['/run/one.ssh', '/run/one.wake'])
  expect(wakeSocketOf(bound)).toBeUndefined()
})
