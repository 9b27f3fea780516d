// How many packets guests may send, and how many connections they may open: a table of nftables beside the firewall's, with a
// chain for each guest. It limits what has an address of the guests' network; the filter on its port keeps a guest to its own.
import type { Shares } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import { type Nft, runNft } from './firewall.ts'

/** A guest is known by its address. `kibPerSecond` only if libvirt cannot limit its traffic here. */
export interface GuestLimit extends Pick<Shares, 'packets_per_second' | 'connections'> {
  ip: string
  kibPerSecond: number | null
}

export interface LimitsSpec {
  table: string
  bridge: string
}

export class GuestLimits {
  readonly #spec: LimitsSpec
  readonly #log: Log
  readonly #nft: Nft
  /** The table as it was last seen, by which it can be made again. */
  #seen: string | undefined

  constructor(spec: LimitsSpec, log: Log, nft: Nft = runNft) {
    this.#spec = spec
    this.#log = log
    this.#nft = nft
  }

  /** From now on. Throws a sentence for the operator. */
  async set(limit: GuestLimit): Promise<void> {
    await this.#nft(['-f', '-'], limitRules(this.#spec, limit))
    this.#seen = await this.#list()
  }

  /** Makes the table again if it was removed, as by `nft flush ruleset`. An agent of before may have made it. */
  async ensure(): Promise<void> {
    const now = await this.#list()
    if (now === undefined && this.#seen !== undefined) {
      const { table } = this.#spec
      this.#log.warn(
        { table, alarm: true, alarmKind: 'firewall' },
        'the limits of guests were removed from outside; they are set again',
      )
      await this.#nft(['-f', '-'], this.#seen)
    } else this.#seen = now
  }

  /** Undefined if there is none. */
  async #list(): Promise<string | undefined> {
    try {
      return await this.#nft(['-s', 'list', 'table', 'inet', this.#spec.table])
    } catch (error) {
      if (/No such file/.test((error as Error).message)) return undefined
      throw error
    }
  }
}

/**
 * One transaction that can be repeated: what is there of other guests stays. It comes behind the kernel's table of connections,
 * which keeps nothing of a connection whose first packet is dropped. Over its limits a guest's packets are dropped, not
 * rejected: its programs then send again, and get through once there is capacity.
 */
export function limitRules({ table, bridge }: LimitsSpec, limit: GuestLimit): string {
  return `${[
    `add table inet ${table}`,
    ...['senders', 'receivers'].map((map) => `add map inet ${table} ${map} { type ipv4_addr : verdict ; }`),
    `add chain inet ${table} sent { type filter hook prerouting priority -150 ; policy accept ; }`,
    `add chain inet ${table} received { type filter hook postrouting priority -150 ; policy accept ; }`,
    ...['sent', 'received'].map((chain) => `flush chain inet ${table} ${chain}`),
    `add rule inet ${table} sent iifname "${bridge}" ip saddr vmap @senders`,
    `add rule inet ${table} received oifname "${bridge}" ip daddr vmap @receivers`,
    ...guestRules(table, limit),
  ].join('\n')}\n`
}

function guestRules(table: string, { ip, packets_per_second: packets, connections, kibPerSecond: kib }: GuestLimit) {
  const traffic = kib === null ? [] : [`limit rate over ${kib} kbytes/second burst ${kib} kbytes drop`]
  const sent = [
    ...(packets === null ? [] : [`limit rate over ${packets}/second burst ${packets} packets drop`]),
    ...(connections === null ? [] : [`ct state new ct count over ${connections} drop`]),
    ...traffic,
  ]
  return [
    ...chain(table, `from_${ip.replaceAll('.', '_')}`, sent, `senders { ${ip}`),
    ...chain(table, `to_${ip.replaceAll('.', '_')}`, traffic, `receivers { ${ip}`),
  ]
}

function chain(table: string, name: string, rules: readonly string[], element: string): string[] {
  return [
    `add chain inet ${table} ${name}`,
    `flush chain inet ${table} ${name}`,
    ...rules.map((rule) => `add rule inet ${table} ${name} ${rule}`),
    `add element inet ${table} ${element} : jump ${name} }`,
  ]
}
