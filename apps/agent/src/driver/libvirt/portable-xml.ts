// The XML of a domain that comes to this host from another one. What the guest sees stays as it is, and each other part is this
// host's own: a broken or hostile host must not make this host's hypervisor open a file or a device. Pure.
import type { DesktopSpec } from '@dormouse/contract'
import type { Mark } from '../mark.ts'
import { domainName, markKey, markXml, sshPort, wakePort } from './domain-xml.ts'
import { commandLine, hasMemoryObject, setOwnMemory } from './memory-object.ts'
import { macOf } from './network-xml.ts'
import { withoutTuning } from './tuning.ts'
import { elementsOf, formatXml, parseXml, textOf, type XmlElement } from './xml-tree.ts'

/** What a domain has of its host. */
export interface HostParts {
  mark: Mark
  emulator: string
  kernel: string
  initrd: string
  cmdline: string
  disk: string
  console: string
  /** Null lets libvirt choose. */
  vncSocket: string | null
  sshSocket: string | null
  wakeSocket: string | null
}

/** An element that may be there: its attributes, its text and its children. */
interface Rule {
  attributes?: Record<string, RegExp>
  text?: RegExp
  children?: Record<string, Rule>
}

const anything = /^[\s\S]*$/
const word = /^[\w.+-]{1,100}$/
const number = /^(0x[\da-f]{1,8}|\d{1,12})$/i
const gone: Rule = { text: anything, attributes: { '*': anything }, children: { '*': {} } }

const address: Rule = {
  attributes: {
    type: word,
    domain: number,
    bus: number,
    slot: number,
    function: number,
    controller: number,
    port: number,
    multifunction: word,
  },
}
const device = { address, alias: gone }

/** What Dormouse's domains have, and what libvirt adds to them. `*` allows anything: such an element is replaced or dropped. */
const domainRule: Rule = {
  attributes: { type: /^(qemu|kvm)$/, id: number, 'xmlns:qemu': anything },
  children: {
    ...{ name: gone, uuid: gone, metadata: gone, resource: gone, seclabel: gone, 'qemu:capabilities': gone },
    // libvirt makes a new one for each restore, by which the guest's kernel notices it.
    genid: { text: /^[\da-f-]{36}$/i },
    // Compared as a whole, and replaced.
    [commandLine]: { children: { 'qemu:arg': { attributes: { value: anything } } } },
    memory: { attributes: { unit: word }, text: number },
    currentMemory: { attributes: { unit: word }, text: number },
    vcpu: { attributes: { placement: word }, text: number },
    cputune: gone,
    os: {
      children: {
        type: { attributes: { arch: word, machine: word }, text: /^hvm$/ },
        ...{ kernel: gone, initrd: gone, cmdline: gone },
        boot: { attributes: { dev: word } },
      },
    },
    features: { children: { acpi: {}, apic: {}, pae: {} } },
    cpu: {
      attributes: { mode: /^custom$/, match: word, check: word },
      children: {
        model: { attributes: { fallback: word }, text: word },
        vendor: { text: word },
        feature: { attributes: { policy: word, name: word } },
      },
    },
    clock: { attributes: { offset: word } },
    ...{ on_poweroff: { text: word }, on_reboot: { text: word }, on_crash: { text: word } },
    devices: {
      children: {
        ...{ emulator: gone, graphics: gone, audio: gone, console: gone },
        disk: {
          attributes: { type: /^file$/, device: /^disk$/ },
          children: {
            driver: { attributes: { name: /^qemu$/, type: /^qcow2$/, error_policy: word, discard: word, cache: word } },
            ...{ source: gone, backingStore: gone, iotune: gone },
            target: { attributes: { dev: word, bus: word } },
            ...device,
          },
        },
        controller: {
          attributes: {
            type: /^(usb|virtio-serial|pci|ide|sata)$/,
            index: number,
            model: word,
            ports: number,
            vectors: number,
          },
          children: {
            model: { attributes: { name: word } },
            target: { attributes: { chassis: number, port: number, busNr: number, chassisNr: number } },
            ...device,
          },
        },
        serial: {
          attributes: { type: /^file$/ },
          children: {
            source: gone,
            target: { attributes: { type: word, port: number }, children: { model: { attributes: { name: word } } } },
            alias: gone,
          },
        },
        channel: {
          attributes: { type: /^unix$/ },
          children: {
            source: gone,
            target: {
              attributes: { type: /^virtio$/, name: /^org\.(qemu\.guest_agent|dormouse\.(ssh|wake))\.0$/, state: word },
            },
            ...device,
          },
        },
        input: { attributes: { type: word, bus: word }, children: device },
        interface: {
          attributes: { type: /^network$/ },
          children: {
            mac: { attributes: { address: /^[\da-f:]{17}$/i } },
            model: { attributes: { type: word } },
            ...{ source: gone, target: gone, filterref: gone, port: gone, link: gone, bandwidth: gone },
            ...device,
          },
        },
        video: {
          children: {
            model: { attributes: { type: word, vram: number, heads: number, primary: word } },
            ...device,
          },
        },
        // libvirt adds it to q35 machines.
        watchdog: { attributes: { model: /^itco$/, action: word }, children: device },
        memballoon: { attributes: { model: /^(none|virtio)$/, freePageReporting: word }, children: device },
        rng: {
          attributes: { model: /^virtio$/ },
          children: { backend: { attributes: { model: /^random$/ }, text: /^\/dev\/u?random$/ }, ...device },
        },
      },
    },
  },
}

/** Throws a sentence if the XML has anything that Dormouse's domains do not have, or more than the desktop's size. */
export function requirePortable(xml: string, spec: DesktopSpec, mark: Mark): void {
  const domain = parseXml(xml)
  if (domain.name !== 'domain') throw new Error(`the root is <${domain.name}>`)
  requireRule(domain, domainRule, 'domain')
  const kib = Number(textOf(only(domain, 'memory')))
  if (only(domain, 'memory').attributes.unit !== 'KiB' || kib !== spec.memoryMiB * 1024) {
    throw new Error(`its memory is not the desktop’s ${spec.memoryMiB} MiB`)
  }
  hasMemoryObject(domain)
  if (Number(textOf(only(domain, 'vcpu'))) !== spec.vcpus) throw new Error('its number of processors is another')
  const devices = only(domain, 'devices')
  only(devices, 'disk')
  for (const nic of elementsOf(devices, 'interface')) {
    if (only(nic, 'mac').attributes.address !== macOf(mark.desktopId)) throw new Error('its MAC address is not its own')
  }
}

function requireRule(element: XmlElement, { attributes = {}, text, children = {} }: Rule, path: string): void {
  for (const [name, value] of Object.entries(element.attributes)) {
    const form = own(attributes, name) ?? own(attributes, '*')
    if (!form?.test(value))
      throw new Error(`${path} has an attribute ${name}="${value.slice(0, 50)}" that is not allowed`)
  }
  const words = textOf(element)
  if (words !== '' && !text?.test(words)) throw new Error(`${path} has a text that is not allowed`)
  if (own(children, '*')) return
  for (const child of elementsOf(element)) {
    const rule = own(children, child.name)
    if (!rule) throw new Error(`${path} has <${child.name.slice(0, 50)}>, which is not allowed`)
    requireRule(child, rule, `${path}/${child.name}`)
  }
}

const own = <T>(of: Record<string, T>, name: string): T | undefined => (Object.hasOwn(of, name) ? of[name] : undefined)

function only(parent: XmlElement, name: string): XmlElement {
  const [found, ...more] = elementsOf(parent, name)
  if (!found || more.length > 0) throw new Error(`<${parent.name}> must have one <${name}>`)
  return found
}

/**
 * The domain's XML with this host's parts. The chain of the disk is left out, so its own header counts. The filter of a network
 * port stays as it is: the caller replaces it, and may give the same address again. A guest that mapped a template's memory gets
 * memory of its own.
 * What limits it comes with its wake.
 */
export function withHostParts(xml: string, parts: HostParts, networkName: string | undefined): string {
  const domain = parseXml(withoutTuning(xml))
  const { mark, emulator, kernel, initrd, cmdline } = parts
  const isNamed = hasMemoryObject(domain)
  const dropped = new Set(['metadata', 'resource', 'seclabel', 'qemu:capabilities', commandLine])
  domain.children = domain.children.filter((child) => typeof child === 'string' || !dropped.has(child.name))
  delete domain.attributes.id
  delete domain.attributes['xmlns:qemu']
  setText(domain, 'name', domainName(mark))
  setText(domain, 'uuid', mark.desktopId)
  domain.children.push({ name: 'metadata', attributes: {}, children: [parseXml(markXml(mark, `${markKey}:`))] })
  const os = only(domain, 'os')
  setText(os, 'kernel', kernel)
  setText(os, 'initrd', initrd)
  setText(os, 'cmdline', cmdline)
  const devices = only(domain, 'devices')
  setText(devices, 'emulator', emulator)
  devices.children = devices.children.flatMap((child) =>
    typeof child === 'string' ? [] : hosted(child, parts, networkName),
  )
  if (isNamed) setOwnMemory(domain)
  return formatXml(domain)
}

/** The device with this host's paths; none if libvirt makes it by itself. */
function hosted(device: XmlElement, parts: HostParts, networkName: string | undefined): XmlElement[] {
  const without = (...names: string[]) =>
    elementsOf(device).filter(({ name }) => !names.includes(name) && name !== 'alias')
  const withSource = (attributes: Record<string, string>, ...dropped: string[]) => {
    return [{ ...device, children: [element('source', attributes), ...without('source', ...dropped)] }]
  }
  switch (device.name) {
    case 'audio':
    case 'console':
      return []
    case 'disk':
      return withSource({ file: parts.disk }, 'backingStore')
    case 'serial':
      return withSource({ path: parts.console, append: 'on' })
    case 'channel': {
      const name = elementsOf(device, 'target')[0]?.attributes.name
      const target = elementsOf(device, 'target').map(({ attributes: { state: _, ...rest } }) =>
        element('target', rest),
      )
      const children = [...target, ...without('source', 'target')]
      const path = name === sshPort ? parts.sshSocket : name === wakePort ? parts.wakeSocket : null
      return [{ ...device, children: path ? [element('source', { mode: 'bind', path }), ...children] : children }]
    }
    case 'graphics':
      return [screen(parts.vncSocket)]
    case 'interface':
      return networkName === undefined
        ? [{ ...device, children: without() }]
        : withSource({ network: networkName }, 'target')
    default:
      return [{ ...device, children: [...device.children.filter((child) => typeof child === 'string'), ...without()] }]
  }
}

const element = (name: string, attributes: Record<string, string>): XmlElement => ({ name, attributes, children: [] })

function screen(socket: string | null): XmlElement {
  const listen = element('listen', { type: 'socket', ...(socket && { socket }) })
  return { name: 'graphics', attributes: { type: 'vnc' }, children: [listen] }
}

function setText(parent: XmlElement, name: string, value: string): void {
  const [found] = elementsOf(parent, name)
  if (found) found.children = [value]
}
