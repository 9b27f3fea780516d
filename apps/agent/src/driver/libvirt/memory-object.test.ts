// Guarantee: a guest that maps a template's memory has exactly the arguments for it, and any other argument for QEMU is refused.
import { describe, expect, test } from 'vitest'
import { hasMemoryObject, type MappedFile, setOwnMemory, withMappedMemory, withoutArguments } from './memory-object.ts'
import { formatXml, parseXml } from './xml-tree.ts'

const domain = `<domain type='kvm'><name>a</name><memory unit='KiB'>262144</memory></domain>`
const path = '/var/lib/dormouse-disks/templates/0a/memory'

const argumentsIn = (xml: string): string[] =>
  [...xml.matchAll(/<qemu:arg value='([^']*)'\/>/g)].map(([, value]) => value!)
const mapped = (access: MappedFile['access'], file = path) => withMappedMemory(domain, { path: file, access })
const own = () => {
  const root = parseXml(mapped('private'))
  setOwnMemory(root)
  return formatXml(root)
}

test.each<[MappedFile['access'], string, string[]]>([
  ['all', 'share=on', []],
  ['private', 'share=off', ['-incoming', 'defer']],
  ['private-read-only', 'share=off,readonly=on,rom=off', ['-incoming', 'defer']],
])('memory in a file, for %s', (access, options, incoming) => {
  const xml = mapped(access)
  expect(argumentsIn(xml)).toEqual([
    '-object',
    `memory-backend-file,id=dram,size=262144K,mem-path=${path},${options}`,
    '-machine',
    'memory-backend=dram',
    ...incoming,
  ])
  expect(xml).toContain(" xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'")
})

const isKnown = (xml: string): boolean => hasMemoryObject(parseXml(xml))

test('a domain that is made has its memory in MiB', () => {
  const xml = withMappedMemory("<domain><memory unit='MiB'>256</memory></domain>", { path, access: 'all' })
  expect(argumentsIn(xml)[1]).toContain('size=262144K,')
})

test('a comma in the path ends no option', () => {
  const [, object] = argumentsIn(mapped('private', '/disks,share=on/memory'))
  expect(object).toBe('memory-backend-file,id=dram,size=262144K,mem-path=/disks,,share=on/memory,share=off')
  expect(isKnown(mapped('private', '/disks,share=on/memory'))).toBe(true)
})

test('memory of its own takes the place of the file, and nothing waits for a guest', () => {
  expect(argumentsIn(own())).toEqual([
    '-object',
    'memory-backend-ram,id=dram,size=262144K',
    '-machine',
    'memory-backend=dram',
  ])
  expect(own()).not.toContain(path)
})

test('no guest makes holes in the file, and each is a new generation', () => {
  const devices =
    "<devices><memballoon model='virtio' freePageReporting='on'><address type='pci'/></memballoon></devices>"
  const genid = '<genid>01a20a2f-fa5b-4a3a-92b2-f7215b07c7a8</genid>'
  const xml = domain.replace('</domain>', `${genid}${devices}</domain>`)
  const own = withMappedMemory(xml, { path, access: 'private-read-only' })
  expect(own).toContain("<devices><memballoon model='none'/></devices>")
  expect(own).toContain('<genid/>')
})

test('a template keeps no arguments', () => {
  expect(withoutArguments(mapped('all'))).not.toContain('qemu:arg')
  expect(withoutArguments(domain)).toBe(domain.replaceAll('\n', ''))
})

test('what desktops have is known', () => {
  expect(isKnown(domain)).toBe(false)
  for (const xml of [mapped('private'), mapped('private-read-only'), own()]) expect(isKnown(xml)).toBe(true)
})

const replaced = (from: string, to: string) => mapped('private').replace(from, to)
const added = (xml: string) => replaced('</qemu:commandline>', `${xml}</qemu:commandline>`)

describe('a domain is refused with', () => {
  test.each([
    ['a template’s own memory', mapped('all')],
    ['another argument', added("<qemu:arg value='-S'/>")],
    ['a variable of the environment', added("<qemu:env name='A' value='b'/>")],
    ['another object', replaced('id=dram', 'id=ram')],
    ['another option of the object', replaced('share=off', 'share=off,prealloc=on')],
    ['a file that is written', replaced('share=off', 'share=on')],
    ['a second path', replaced('share=off', 'mem-path=/etc/shadow,share=off')],
    ['another machine', replaced('memory-backend=dram', 'memory-backend=dram,usb=on')],
    ['memory from elsewhere', replaced('defer', 'tcp:0.0.0.0:1')],
    ['no object', replaced('-object', '-device')],
    ['two lines', replaced('</domain>', '<qemu:commandline/></domain>')],
    ['no arguments', domain.replace('</domain>', '<qemu:commandline/></domain>')],
  ])('%s', (_what, xml) => {
    expect(() => isKnown(xml)).toThrow('arguments for QEMU that are not allowed')
  })
})
