// The memory of guests that began with a template whose memory's file they map. libvirt cannot name that file, so QEMU is given
// an object by the command line in the domain's XML. QEMU finds memory by the object's name in every later save and move: so
// such a guest has an object of that name as long as it exists, but with memory of its own once it was saved or moved. Pure.
import { qemuNamespace } from './domain-xml.ts'
import { elementsOf, formatXml, parseXml, textOf, type XmlElement } from './xml-tree.ts'

export const commandLine = 'qemu:commandline'

/** `all`: what the guest writes is in the file. Otherwise it is only its own. */
export interface MappedFile {
  path: string
  access: 'all' | 'private' | 'private-read-only'
}

/** To be merged with libvirt's own: the last one counts. */
const useObject = ['-machine', 'memory-backend=dram']
/** The guest's memory and devices come afterwards, by commands. */
const waitForGuest = ['-incoming', 'defer']

const accessOptions = { all: 'share=on', private: 'share=off', 'private-read-only': 'share=off,readonly=on,rom=off' }
const ownForm = /^memory-backend-ram,id=dram,size=\d+K$/
const mappedForm = /^memory-backend-file,id=dram,size=\d+K,mem-path=(?:[^,]|,,)+,share=off(?:,readonly=on,rom=off)?$/

/**
 * The domain's XML with its memory in a file; one that maps it privately waits for the rest of its guest, and is a new
 * generation of it. It reports no free pages: QEMU gives such a page back by a hole in the file, which is everybody's.
 */
export function withMappedMemory(xml: string, { path, access }: MappedFile): string {
  const domain = parseXml(xml)
  for (const { children } of elementsOf(domain, 'genid')) children.splice(0)
  for (const balloon of elementsOf(domain, 'devices').flatMap((devices) => elementsOf(devices, 'memballoon')))
    Object.assign(balloon, { attributes: { model: 'none' }, children: [] })
  const file = `memory-backend-file,id=dram,size=${kibOf(domain)}K,mem-path=${path.replaceAll(',', ',,')}`
  const object = ['-object', `${file},${accessOptions[access]}`]
  setArguments(domain, [...object, ...useObject, ...(access === 'all' ? [] : waitForGuest)])
  return formatXml(domain)
}

/** The domain's XML without arguments for QEMU. */
export function withoutArguments(xml: string): string {
  const domain = parseXml(xml)
  dropArguments(domain)
  return formatXml(domain)
}

/** Whether QEMU has the guest's memory under that name. Throws a sentence if there is any other argument for QEMU. */
export function hasMemoryObject(domain: XmlElement): boolean {
  const [line, ...more] = elementsOf(domain, commandLine)
  if (!line) return false
  const given = elementsOf(line).map(({ name, attributes: { value = '' } }) => (name === 'qemu:arg' ? value : ''))
  const [flag, object = '', ...rest] = given
  const isOurs = ownForm.test(object) || mappedForm.test(object)
  const isRestOurs = [useObject, [...useObject, ...waitForGuest]].some((known) => isSame(known, rest))
  if (more.length > 0 || flag !== '-object' || !isOurs || !isRestOurs)
    throw new Error('domain has arguments for QEMU that are not allowed')
  return true
}

/** Memory of its own, under that name. */
export function setOwnMemory(domain: XmlElement): void {
  setArguments(domain, ['-object', `memory-backend-ram,id=dram,size=${kibOf(domain)}K`, ...useObject])
}

function setArguments(domain: XmlElement, given: string[]): void {
  const children = given.map((value) => ({ name: 'qemu:arg', attributes: { value }, children: [] }))
  dropArguments(domain)
  domain.attributes['xmlns:qemu'] = qemuNamespace
  domain.children.push({ name: commandLine, attributes: {}, children })
}

function dropArguments(domain: XmlElement): void {
  domain.children = domain.children.filter((child) => typeof child === 'string' || child.name !== commandLine)
}

/** libvirt writes KiB; a domain that is to be made has MiB. */
function kibOf(domain: XmlElement): number {
  const [memory] = elementsOf(domain, 'memory')
  const unit = memory?.attributes.unit === 'MiB' ? 1024 : 1
  return Number(memory && textOf(memory)) * unit
}

const isSame = (a: string[], b: string[]): boolean => a.length === b.length && a.every((each, n) => each === b[n])
