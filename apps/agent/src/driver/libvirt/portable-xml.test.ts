// Guarantee: what comes from another host makes this host's hypervisor open nothing but the desktop's own files, and what the
// guest sees stays as it was.
import { newId } from '@dormouse/contract'
import { describe, expect, test } from 'vitest'
import { domainName, readMark, sshSocketOf, vncSocketOf, wakeSocketOf } from './domain-xml.ts'
import { withMappedMemory } from './memory-object.ts'
import { macOf, readNic, withAddress } from './network-xml.ts'
import { type HostParts, requirePortable, withHostParts } from './portable-xml.ts'
import { formatXml, parseXml } from './xml-tree.ts'

const desktopId = newId()
const mark = { installationId: newId(), desktopId, generation: 4, turn: 9, operationId: newId() }
const spec = { vcpus: 1, memoryMiB: 128, diskGiB: 1, imageVersion: 'mini' }
const parts: HostParts = {
  mark,
  emulator: '/new/qemu',
  kernel: '/new/vmlinuz',
  initrd: '/new/initrd',
  cmdline: `quiet "it's" <here>`,
  disk: '/new/disk.qcow2',
  console: '/new/console.log',
  vncSocket: '/new/vnc',
  sshSocket: '/new/ssh',
  wakeSocket: '/new/wake',
}

/** As libvirt 9.0 writes it, with the chain that it adds after a restart. */
const foreign = `<domain type='qemu' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>dormouse-old-${desktopId}</name>
  <uuid>${desktopId}</uuid>
  <genid>43dc0cf8-809b-4adb-9bea-a9abb5f3d90e</genid>
  <metadata>
    <dormouse:desktop xmlns:dormouse="https://dormouse.dev/xmlns/desktop/1" installation="018f0000-0000-7000-8000-00000000beef" id="${desktopId}" generation="3" turn="7" operation="${desktopId}"/>
  </metadata>
  <memory unit='KiB'>131072</memory>
  <currentMemory unit='KiB'>131072</currentMemory>
  <vcpu placement='static'>1</vcpu>
  <resource>
    <partition>/machine</partition>
  </resource>
  <os>
    <type arch='x86_64' machine='pc-i440fx-7.2'>hvm</type>
    <kernel>/old/img/vmlinuz</kernel>
    <initrd>/old/img/initrd</initrd>
    <cmdline>console=ttyS0 a=&quot;b&amp;c&quot;</cmdline>
    <boot dev='hd'/>
  </os>
  <features>
    <acpi/>
  </features>
  <cpu mode='custom' match='exact' check='none'>
    <model fallback='forbid'>qemu64</model>
  </cpu>
  <clock offset='utc'/>
  <on_poweroff>destroy</on_poweroff>
  <on_reboot>restart</on_reboot>
  <on_crash>destroy</on_crash>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <disk type='file' device='disk'>
      <driver name='qemu' type='qcow2' error_policy='enospace' discard='unmap'/>
      <source file='/old/d.qcow2' index='1'/>
      <backingStore type='file' index='2'>
        <format type='qcow2'/>
        <source file='/old/img/disk.qcow2'/>
        <backingStore/>
      </backingStore>
      <target dev='vda' bus='virtio'/>
      <address type='pci' domain='0x0000' bus='0x00' slot='0x04' function='0x0'/>
    </disk>
    <controller type='usb' index='0' model='none'/>
    <controller type='virtio-serial' index='0'>
      <address type='pci' domain='0x0000' bus='0x00' slot='0x03' function='0x0'/>
    </controller>
    <serial type='file'>
      <source path='/old/c.log' append='on'/>
      <target type='isa-serial' port='0'>
        <model name='isa-serial'/>
      </target>
    </serial>
    <console type='file'>
      <source path='/old/c.log' append='on'/>
      <target type='serial' port='0'/>
    </console>
    <channel type='unix'>
      <target type='virtio' name='org.qemu.guest_agent.0'/>
      <address type='virtio-serial' controller='0' bus='0' port='1'/>
    </channel>
    <channel type='unix'>
      <source mode='bind' path='/old/s'/>
      <target type='virtio' name='org.dormouse.ssh.0'/>
      <address type='virtio-serial' controller='0' bus='0' port='2'/>
    </channel>
    <channel type='unix'>
      <source mode='bind' path='/old/w'/>
      <target type='virtio' name='org.dormouse.wake.0' state='disconnected'/>
      <address type='virtio-serial' controller='0' bus='0' port='3'/>
    </channel>
    <input type='tablet' bus='virtio'>
      <address type='pci' domain='0x0000' bus='0x00' slot='0x06' function='0x0'/>
    </input>
    <input type='mouse' bus='ps2'/>
    <graphics type='vnc' socket='/old/v'>
    </graphics>
    <video>
      <model type='vga' vram='16384' heads='1' primary='yes'/>
      <address type='pci' domain='0x0000' bus='0x00' slot='0x02' function='0x0'/>
    </video>
    <memballoon model='virtio' freePageReporting='on'>
      <address type='pci' domain='0x0000' bus='0x00' slot='0x08' function='0x0'/>
    </memballoon>
    <rng model='virtio'>
      <backend model='random'>/dev/urandom</backend>
      <address type='pci' domain='0x0000' bus='0x00' slot='0x05' function='0x0'/>
    </rng>
  </devices>
  <qemu:capabilities>
    <qemu:del capability='cpu-unavailable-features'/>
  </qemu:capabilities>
</domain>
`

test('each path, the mark and the name are this host’s; the rest is as it was', () => {
  requirePortable(foreign, spec, mark)
  const own = withHostParts(foreign, parts, undefined)
  expect(own).not.toContain('/old')
  expect(own).not.toMatch(/backingStore|qemu:|seclabel|<resource/)
  expect(readMark(own)).toEqual(mark)
  expect(own).toContain(`<name>${domainName(mark)}</name>`)
  expect([vncSocketOf(own), sshSocketOf(own), wakeSocketOf(own)]).toEqual(['/new/vnc', '/new/ssh', '/new/wake'])
  expect(own).toContain('<cmdline>quiet &#34;it&#39;s&#34; &#60;here&#62;</cmdline>')
  for (const seen of [
    'pc-i440fx-7.2',
    'qemu64',
    "slot='0x04'",
    "slot='0x06'",
    "slot='0x08'",
    '43dc0cf8-809b-4adb-9bea-a9abb5f3d90e',
    "freePageReporting='on'",
    'org.qemu.guest_agent.0',
    '/dev/urandom',
  ]) {
    expect(own).toContain(seen)
  }
  // What has this host's parts has nothing left to change.
  expect(withHostParts(own, parts, undefined)).toBe(own)
  requirePortable(own, spec, mark)
})

test('a domain of an agent that made neither wake port, generation id nor balloon is taken as it is', () => {
  const older = foreign
    .replace(/\s*<genid>.*<\/genid>/, '')
    .replace(/<memballoon[\s\S]*<\/memballoon>/, "<memballoon model='none'/>")
    .replace(/<channel type='unix'>\s*<source mode='bind' path='\/old\/w'\/>[\s\S]*?<\/channel>/, '')
  requirePortable(older, spec, mark)
  const own = withHostParts(older, parts, undefined)
  expect(own).toContain("<memballoon model='none'/>")
  expect(own).not.toMatch(/genid|dormouse\.wake/)
})

test('sockets that libvirt chose there are chosen by it here', () => {
  const own = withHostParts(foreign, { ...parts, vncSocket: null, sshSocket: null, wakeSocket: null }, undefined)
  expect([vncSocketOf(own), sshSocketOf(own), wakeSocketOf(own)]).toEqual([undefined, undefined, undefined])
  expect(own).toContain("<listen type='socket'/>")
})

test('a network port keeps its address and its slot, and is on this host’s network', () => {
  const nic = (
    mac: string,
  ) => `<interface type='network'><mac address='${mac}'/><source network='theirs' portid='x' bridge='br0'/>
    <target dev='vnet0'/><model type='virtio'/><port isolated='yes'/>
    <filterref filter='clean-traffic'><parameter name='IP' value='10.0.0.9'/></filterref>
    <address type='pci' domain='0x0000' bus='0x00' slot='0x07' function='0x0'/></interface>`
  const on = (mac: string) => foreign.replace('</devices>', `${nic(mac)}</devices>`)
  requirePortable(on(macOf(desktopId)), spec, mark)
  const own = withHostParts(on(macOf(desktopId)), parts, 'ours')
  expect(own).toContain("<source network='ours'/>")
  expect(own).toContain("slot='0x07'")
  expect(own).not.toMatch(/vnet0|theirs/)
  expect(readNic(own)).toEqual({ network: 'ours', mac: macOf(desktopId), ip: '10.0.0.9' })
  expect(readNic(withAddress(own, '10.0.1.2'))).toEqual({ network: 'ours', mac: macOf(desktopId), ip: '10.0.1.2' })
  expect(() => requirePortable(on('52:00:00:00:00:01'), spec, mark)).toThrow(/MAC/)
})

test('a guest that mapped a template’s memory gets memory of its own, under the same name', () => {
  const mapped = withMappedMemory(foreign, { path: '/old/templates/memory', access: 'private-read-only' })
  requirePortable(mapped, spec, mark)
  const own = withHostParts(mapped, parts, undefined)
  expect(own).not.toMatch(/\/old|incoming|memory-backend-file/)
  expect(own).toContain("<qemu:arg value='memory-backend-ram,id=dram,size=131072K'/>")
  requirePortable(own, spec, mark)
  expect(withHostParts(own, parts, undefined)).toBe(own)
})

test('its own host, too, restores nothing with other arguments for QEMU', () => {
  const other = foreign.replace('</domain>', "<qemu:commandline><qemu:arg value='-S'/></qemu:commandline></domain>")
  expect(() => withHostParts(other, parts, undefined)).toThrow('arguments for QEMU')
})

const inDevices = (xml: string) => foreign.replace('</devices>', `${xml}</devices>`)
const hostile: [what: string, xml: string][] = [
  [
    'another disk',
    inDevices("<disk type='file' device='disk'><source file='/etc/shadow'/><target dev='vdb' bus='virtio'/></disk>"),
  ],
  ['a disk on the network', foreign.replace("<disk type='file'", "<disk type='network'")],
  ['a raw disk', foreign.replace("type='qcow2' error", "type='raw' error")],
  [
    'arguments for QEMU',
    foreign.replace('</domain>', '<qemu:commandline><qemu:arg value="-drive"/></qemu:commandline></domain>'),
  ],
  ['a file system', inDevices("<filesystem type='mount'><source dir='/'/><target dir='all'/></filesystem>")],
  ['a device of the host', inDevices("<hostdev mode='subsystem' type='pci'/>")],
  ['a TCP console', inDevices("<serial type='tcp'><source mode='bind' host='0.0.0.0' service='1'/></serial>")],
  ['another channel', inDevices("<channel type='pty'><target type='virtio' name='org.other'/></channel>")],
  ['a boot loader', foreign.replace('<boot ', "<loader readonly='no'>/etc/shadow</loader><boot ")],
  ['a CPU of the host', foreign.replace("mode='custom'", "mode='host-passthrough'")],
  ['another source of randomness', foreign.replace('/dev/urandom', '/etc/shadow')],
  [
    'memory that is backed by a file',
    foreign.replace('<os>', '<memoryBacking><source type="file"/></memoryBacking><os>'),
  ],
  ['more memory', foreign.replace(/131072/g, '1310720')],
  ['memory in another unit', foreign.replace(/<memory unit='KiB'>/, "<memory unit='MiB'>")],
  ['more processors', foreign.replace("'static'>1<", "'static'>8<")],
  ['no disk', foreign.replace(/<disk[\s\S]*?<\/disk>/, '')],
  ['a name of Object’s', foreign.replace('<features>', '<features><constructor/>')],
  ['no domain', '<network/>'],
]

describe('a domain that comes from another host is refused with', () => {
  test.each(hostile)('%s', (_what, xml) => {
    expect(xml).not.toBe(foreign)
    expect(() => requirePortable(xml, spec, mark)).toThrow()
  })
})

describe('XML', () => {
  test('is read and written the same', () => {
    expect(formatXml(parseXml(formatXml(parseXml(foreign))))).toBe(formatXml(parseXml(foreign)))
  })

  const wrong = [
    ...[
      '',
      'text',
      '<a>',
      '<a></b>',
      '<a/><b/>',
      '<a b=c/>',
      "<a b='1' b='2'/>",
      "<a b='<'/>",
      '<a>&nbsp;</a>',
      '<a>&</a>',
    ],
    ...['<?xml version="1.0"?><a/>', '<!DOCTYPE a><a/>', '<a><!-- --></a>', '<a><![CDATA[b]]></a>', '<a/>text<b'],
    '<a>'.repeat(40) + '</a>'.repeat(40),
    `<a>${' '.repeat(600_000)}</a>`,
  ]
  test.each(wrong)('that libvirt never writes is refused: %.40s', (text) => {
    expect(() => parseXml(text)).toThrow()
  })
})
