// After each start and restore, libvirt sends QEMU some 400 queries about the guest's CPU, which takes about 250 ms. If the
// domain hides one of QEMU's capabilities, it reads two sets of bits instead. Those do not contain features that a CPU reports
// by model-specific registers. So under KVM it is hidden only after a comparison on this host has passed.
import { randomUUID } from 'node:crypto'
import type { LibvirtHost } from '@dormouse/node-libvirt'
import type { Log } from '@dormouse/process'
import { machineOf, namePrefix, qemuNamespace } from './domain-xml.ts'

const capabilities = "<qemu:capabilities><qemu:del capability='cpu-unavailable-features'/></qemu:capabilities>"

/** The domain's XML with that capability hidden; one that names capabilities already stays as it is. */
export function withFewCpuQuestions(xml: string): string {
  if (xml.includes('<qemu:capabilities>')) return xml
  const root = /<domain\b[^>]*>/.exec(xml)?.[0] ?? ''
  const named = root.includes('xmlns:qemu=') ? root : root.replace('<domain', `<domain xmlns:qemu='${qemuNamespace}'`)
  return xml.replace(root, () => named).replace(/<\/domain>\s*$/, () => `${capabilities}</domain>\n`)
}

/** What decides which CPU a guest sees. */
export interface CpuPlan {
  installationId: string
  type: 'kvm' | 'qemu'
  emulator: string
  machine: string
  cpuModel: string
}

export class CpuQuestions {
  readonly #log: Log
  readonly #same = new Set<string>()

  constructor(log: Log) {
    this.#log = log
  }

  /** The XML to start or restore a domain from: with few queries if the guest's CPU is known to stay the same. */
  shorten(xml: string, kvm: boolean): string {
    return !kvm || this.#same.has(keyOf(machineOf(xml))) ? withFewCpuQuestions(xml) : xml
  }

  /** Compares on this host, for domains that are started later. A failure is logged: they are started as before. */
  async check(host: LibvirtHost, plan: CpuPlan): Promise<void> {
    const { machine, cpuModel } = plan
    try {
      const { before, after } = await liveCpus(host, plan)
      if (before === after) this.#same.add(keyOf(plan))
      this.#log.info({ machine, cpuModel, same: before === after, before, after }, 'the guests’ CPU was compared')
    } catch (err) {
      this.#log.warn({ err, machine, cpuModel }, 'the guests’ CPU could not be compared; wakes take longer')
    }
  }
}

const keyOf = ({ cpuModel, machine }: Pick<CpuPlan, 'cpuModel' | 'machine'>): string => `${cpuModel} on ${machine}`

/** The CPU of a paused domain without a guest, as libvirt describes it: with all questions, and with few. */
export async function liveCpus(host: LibvirtHost, plan: CpuPlan): Promise<{ before: string; after: string }> {
  const xml = emptyDomain(plan)
  return { before: await liveCpu(host, xml), after: await liveCpu(host, withFewCpuQuestions(xml)) }
}

async function liveCpu(host: LibvirtHost, xml: string): Promise<string> {
  // It ends with this connection, should the agent die before it is destroyed.
  const domain = await host.domains.createXml(xml, { paused: true, autodestroy: true })
  try {
    const cpu = /<cpu[\s\S]*?<\/cpu>/.exec(await domain.xml())?.[0]
    if (!cpu) throw new Error('libvirt describes no CPU')
    return cpu
  } finally {
    await domain.destroy()
  }
}

const emptyDomain = ({ installationId, type, emulator, machine, cpuModel }: CpuPlan): string => `<domain type='${type}'>
  <name>${namePrefix(installationId)}cpu-check</name>
  <uuid>${randomUUID()}</uuid>
  <memory unit='MiB'>16</memory>
  <vcpu>1</vcpu>
  <os><type arch='x86_64' machine='${machine}'>hvm</type></os>
  <features><acpi/></features>
  <cpu mode='custom' match='exact' check='none'><model fallback='forbid'>${cpuModel}</model></cpu>
  <devices>
    <emulator>${emulator}</emulator>
    <controller type='usb' model='none'/>
    <memballoon model='none'/>
  </devices>
</domain>
`
