// Gives running domains their shares of the host: weight and disk by libvirt, packets and connections by nftables, traffic by
// libvirt, or by nftables if the kernel lacks what libvirt needs. What a host cannot do is no failure of a wake: it is logged
// once, and shown among the host's versions.
import type { DesktopId, Shares } from '@dormouse/contract'
import type { Domain as Handle } from '@dormouse/node-libvirt'
import type { Log } from '@dormouse/process'
import type { Installation } from './installation.ts'
import { macOf, readNic } from './network-xml.ts'
import { isSame, kibOf, readTuning, type Tuning, tuningOf } from './tuning.ts'

type Part = 'cpu' | 'disk' | 'traffic' | 'packets'

const instead: Record<Part, string> = {
  cpu: 'not weighted',
  disk: 'not limited',
  traffic: 'limited by nftables',
  packets: 'not limited',
}

export class GuestShares {
  readonly #installation: Installation
  readonly #log: Log
  readonly #lacking = new Map<Part, string>()

  constructor(installation: Installation, log: Log) {
    this.#installation = installation
    this.#log = log
  }

  /** For the operator; undefined if nothing has failed. */
  get lacking(): string | undefined {
    if (this.#lacking.size === 0) return undefined
    return [...this.#lacking].map(([part, why]) => `${part}: ${instead[part]} (${why.slice(0, 60)})`).join('; ')
  }

  /** The domain exists. Without shares, limits that an earlier wake has set are removed. */
  async set(desktopId: DesktopId, shares: Shares | undefined): Promise<void> {
    const domain = this.#installation.domain(desktopId)
    let xml: string
    try {
      xml = await domain.xml()
    } catch (err) {
      return this.#log.warn({ err, desktopId }, 'a desktop’s shares could not be set; it has those of its last wake')
    }
    const [wanted, present] = [tuningOf(shares), readTuning(xml)]
    const weight = wanted.cpuShares
    if (weight !== undefined && weight !== present.cpuShares) await this.#try('cpu', () => domain.setCpuShares(weight))
    if (!isSame(wanted.ioTune, present.ioTune))
      await this.#try('disk', () => domain.setBlockIoTune('vda', wanted.ioTune))
    const ip = readNic(xml)?.ip
    if (ip) await this.#limitPort({ domain, desktopId, ip, shares, wanted, present })
  }

  async #limitPort({ domain, desktopId, ip, shares, wanted, present }: Port): Promise<void> {
    const isToChange = !isSame(wanted.bandwidth, present.bandwidth)
    // Each try starts a dozen programs.
    if (isToChange && !this.#lacking.has('traffic')) {
      await this.#try('traffic', () => domain.setInterfaceParameters(macOf(desktopId), wanted.bandwidth))
      // A try that has failed leaves half of the limits.
      if (this.#lacking.has('traffic'))
        await domain.setInterfaceParameters(macOf(desktopId), tuningOf(undefined).bandwidth).catch(() => undefined)
    }
    const { network } = await this.#installation.ready()
    if (!network) return
    const { packets_per_second = null, connections = null, network_mbit_per_second: mbit = null } = shares ?? {}
    const kibPerSecond = mbit !== null && this.#lacking.has('traffic') ? kibOf(mbit) : null
    await this.#try('packets', () => network.limit({ ip, packets_per_second, connections, kibPerSecond }))
  }

  async #try(part: Part, work: () => Promise<void>): Promise<void> {
    try {
      await work()
      this.#lacking.delete(part)
    } catch (err) {
      const isNew = !this.#lacking.has(part)
      this.#lacking.set(part, (err as Error).message)
      if (isNew) this.#log.warn({ err, part, instead: instead[part] }, 'this host cannot give desktops their shares')
    }
  }
}

interface Port {
  domain: Handle
  desktopId: DesktopId
  ip: string
  shares: Shares | undefined
  wanted: Tuning
  present: Tuning
}
