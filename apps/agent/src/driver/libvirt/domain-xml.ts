// The XML of a domain, its mark and its volume. Pure.
import type { DesktopSpec } from '@dormouse/contract'
import type { Mark } from '../mark.ts'
import { type Nic, nicXml } from './network-xml.ts'

export const markNamespace = 'https://dormouse.dev/xmlns/desktop/1'
export const markKey = 'dormouse'
/** The namespace of what an XML has for QEMU alone. */
export const qemuNamespace = 'http://libvirt.org/schemas/domain/qemu/1.0'

export interface DomainPlan {
  spec: DesktopSpec
  mark: Mark
  type: 'kvm' | 'qemu'
  emulator: string
  machine: string
  cpuModel: string
  kernel: string
  initrd: string
  cmdline: string
  disk: string
  console: string
  /** Null gives the guest no network. */
  nic: Nic | null
  /** Null lets libvirt choose the path of the screen's socket. */
  vncSocket: string | null
  /** The paths of the sockets of the guest's ports to its host; null lets libvirt choose, undefined makes no port. */
  sshSocket?: string | null | undefined
  wakeSocket?: string | null | undefined
}

export const sshPort = 'org.dormouse.ssh.0'
export const wakePort = 'org.dormouse.wake.0'

export const domainName = ({ installationId, desktopId }: Pick<Mark, 'installationId' | 'desktopId'>): string =>
  `${namePrefix(installationId)}${desktopId}`

/** The beginning of the names of all the installation's domains. */
export const namePrefix = (installationId: string): string => `dormouse-${installationId.slice(-12)}-`

/** The beginning of the names of its templates' guests, which belong to no desktop. */
export const templatePrefix = (installationId: string): string => `${namePrefix(installationId)}template-`

/** The same domain under another name, and without the mark of a desktop. */
export const asTemplate = (xml: string, name: string): string =>
  xml.replace(/<name>[^<]*/, `<name>${name}`).replace(/\s*<metadata>[\s\S]*?<\/metadata>/, '')

export function domainXml(plan: DomainPlan): string {
  const { spec, mark, type, emulator, machine, cpuModel, kernel, initrd, cmdline } = plan
  return `<domain type='${type}'>
  <name>${domainName(mark)}</name>
  <uuid>${mark.desktopId}</uuid>
  <genid/>
  <metadata>${markXml(mark, `${markKey}:`)}</metadata>
  <memory unit='MiB'>${spec.memoryMiB}</memory>
  <vcpu>${spec.vcpus}</vcpu>
  <os>
    <type arch='x86_64' machine='${text(machine)}'>hvm</type>
    <kernel>${text(kernel)}</kernel>
    <initrd>${text(initrd)}</initrd>
    <cmdline>${text(cmdline)}</cmdline>
  </os>
  <features><acpi/></features>
  <cpu mode='custom' match='exact' check='none'><model fallback='forbid'>${text(cpuModel)}</model></cpu>
  <clock offset='utc'/>
  <on_poweroff>destroy</on_poweroff><on_reboot>restart</on_reboot><on_crash>destroy</on_crash>
  <devices>
    <emulator>${text(emulator)}</emulator>
${devices(plan)}
  </devices>
</domain>
`
}

function devices({ disk, console, nic, vncSocket, sshSocket, wakeSocket }: DomainPlan): string {
  const listen = vncSocket ? `<listen type='socket' socket='${text(vncSocket)}'/>` : `<listen type='socket'/>`
  return `    <disk type='file' device='disk'>
      <driver name='qemu' type='qcow2' discard='unmap' error_policy='enospace'/>
      <source file='${text(disk)}'/>
      <target dev='vda' bus='virtio'/>
    </disk>
    <controller type='usb' model='none'/>
    <controller type='virtio-serial' index='0'/>
    <serial type='file'><source path='${text(console)}' append='on'/><target port='0'/></serial>
    <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>
    ${portXml(sshPort, sshSocket)}
    ${portXml(wakePort, wakeSocket)}
    ${nic ? nicXml(nic) : ''}
    <input type='tablet' bus='virtio'/>
    <graphics type='vnc'>${listen}</graphics>
    <video><model type='vga'/></video>
    <memballoon model='virtio' freePageReporting='on'/>
    <rng model='virtio'><backend model='random'>/dev/urandom</backend></rng>`
}

function portXml(name: string, socket: string | null | undefined): string {
  if (socket === undefined) return ''
  const bound = socket ? `<source mode='bind' path='${text(socket)}'/>` : ''
  return `<channel type='unix'>${bound}<target type='virtio' name='${name}'/></channel>`
}

/** The mark as an element; with `prefix` inside a document. */
export function markXml({ installationId, desktopId, generation, turn, operationId }: Mark, prefix = ''): string {
  const xmlns = prefix ? `xmlns:${prefix.slice(0, -1)}` : 'xmlns'
  return (
    `<${prefix}desktop ${xmlns}='${markNamespace}' installation='${installationId}' id='${desktopId}'` +
    ` generation='${generation}' turn='${turn}' operation='${operationId}'/>`
  )
}

/** The mark in an element or a document; undefined if there is none of ours. */
export function readMark(xml: string): Mark | undefined {
  const element = /<(?:\w+:)?desktop\b[^>]*>/.exec(xml)?.[0]
  if (!element) return undefined
  const of = (name: string) => new RegExp(`\\b${name}=["']([^"']*)["']`).exec(element)?.[1]
  const [installationId, desktopId, operationId] = [of('installation'), of('id'), of('operation')]
  if (!installationId || !desktopId || !operationId) return undefined
  return { installationId, desktopId, generation: Number(of('generation')), turn: Number(of('turn')), operationId }
}

/** The paths of the sockets of a running domain's ports; undefined if it has no such port. */
export const sshSocketOf = (xml: string): string | undefined => socketOf(xml, sshPort)
export const wakeSocketOf = (xml: string): string | undefined => socketOf(xml, wakePort)

function socketOf(xml: string, port: string): string | undefined {
  const channels = xml.match(/<channel type=['"]unix['"]>[\s\S]*?<\/channel>/g) ?? []
  const channel = channels.find((each) => each.includes(port))
  return untext(/<source[^>]*\bpath=['"]([^'"]*)['"]/.exec(channel ?? '')?.[1])
}

/** The port by which QEMU and a program in the guest share the clipboard. */
export const clipboardXml = `<channel type='qemu-vdagent'><source><clipboard copypaste='yes'/><mouse mode='server'/></source><target type='virtio' name='com.redhat.spice.0'/></channel>`

export const hasClipboard = (xml: string): boolean => /<channel type=['"]qemu-vdagent['"]>/.test(xml)

/** Whether a program in the guest has opened that port. */
export function isClipboardConnected(xml: string): boolean {
  const [channel] = /<channel type=['"]qemu-vdagent['"]>[\s\S]*?<\/channel>/.exec(xml) ?? []
  return /<target[^>]*\bstate=['"]connected['"]/.test(channel ?? '')
}

/** Whether QEMU runs the guest without KVM. */
export const isEmulated = (xml: string): boolean => /<domain[^>]*\btype=['"]qemu['"]/.test(xml)

/** The machine that a guest sees; a saved guest needs the same again. */
export function machineOf(xml: string): { cpuModel: string; machine: string } {
  const of = (form: RegExp) => form.exec(xml)?.[1] ?? 'unknown'
  return { cpuModel: of(/<cpu[\s\S]*?<model[^>]*>([^<]+)</), machine: of(/<type[^>]*machine='([^']+)'/) }
}

/** The XML of a qcow2 overlay. */
export function overlayXml(name: string, bytes: number, backingFile: string): string {
  return `<volume>
  <name>${text(name)}</name>
  <capacity unit='bytes'>${bytes}</capacity>
  <target><format type='qcow2'/></target>
  <backingStore><path>${text(backingFile)}</path><format type='qcow2'/></backingStore>
</volume>
`
}

/** The path of the socket on which a running domain's VNC listens. */
export const vncSocketOf = (xml: string): string | undefined =>
  untext(/<graphics type=['"]vnc['"][\s\S]*?<listen type=['"]socket['"] socket=['"]([^'"]+)['"]/.exec(xml)?.[1])

export const poolXml = (name: string, folder: string): string =>
  `<pool type='dir'><name>${text(name)}</name><target><path>${text(folder)}</path></target></pool>`

export const poolFolderOf = (xml: string): string | undefined => untext(/<path>([^<]*)<\/path>/.exec(xml)?.[1])

const text = (value: string): string => value.replace(/[&<>'"]/g, (char) => `&#${char.charCodeAt(0)};`)

const untext = (value: string | undefined): string | undefined =>
  value
    ?.replace(/&#(\d+);/g, (_, code) => String.fromCharCode(Number(code)))
    .replace(/&(lt|gt|apos|quot|amp);/g, (_, name: keyof typeof named) => named[name])
const named = { lt: '<', gt: '>', apos: "'", quot: '"', amp: '&' }
