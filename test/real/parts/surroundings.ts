// What is around a networked host: the internet, a private network, a metadata service, another installation's guests; and
// services on the host itself. All in namespaces inside of it, all gone with it.

import {
  gatewayOf,
  guestAddress,
  networkXml,
  readSubnet,
  subnetOf,
} from '@dormouse/agent/driver/libvirt/network-xml.ts'
import { type DhcpLease, LibvirtHost, type Network } from '@dormouse/node-libvirt'
import type { Party } from './intruder.ts'
import type { NetworkedHost } from './networked-host.ts'

const others = { name: 'dormouse-other', bridge: 'dmother', subnet: subnetOf('10.201.7') }
/** Returns every connection on that port with its name. */
const service = (name: string) => `busybox nc -ll -p 8080 -e echo ${name} >/dev/null 2>&1 </dev/null &`

const layOut = (stranger: string) => `set -e
mkdir -p /run/netns
ip netns add outside
ip link add up0 type veth peer name eth0 netns outside
ip addr add 203.0.113.1/24 dev up0
ip addr add 192.168.77.1/24 dev up0
ip link set up0 up
for address in 203.0.113.2/24 192.168.77.2/24 169.254.169.254/32 168.63.129.16/32; do
  ip -n outside addr add $address dev eth0
done
ip -n outside link set eth0 up
ip route add default via 203.0.113.2
ip netns add stranger
ip link add stranger0 type veth peer name eth0 netns stranger
ip link set stranger0 master ${others.bridge} up
ip -n stranger addr add ${stranger}/24 dev eth0
ip -n stranger link set eth0 up
ip -n stranger route add default via ${gatewayOf(others.subnet)}
${service('host')}
ip netns exec outside ${service('outside')}
ip netns exec stranger ${service('stranger')}`

export class Surroundings {
  readonly gateway: Party
  /** The device number of the guests' bridge. */
  readonly bridgeIndex: number
  /** A guest of another installation, and the host's address on its network. */
  readonly stranger = guestAddress(others.subnet, 7)!
  readonly strangersGateway = gatewayOf(others.subnet)
  /** On the guests' network, and nobody's. */
  readonly freeAddress: string
  readonly #host: NetworkedHost
  readonly #network: Network

  private constructor(host: NetworkedHost, network: Network, facts: { gateway: Party; index: number; free: string }) {
    this.#host = host
    this.#network = network
    this.gateway = facts.gateway
    this.bridgeIndex = facts.index
    this.freeAddress = facts.free
  }

  static async of(host: NetworkedHost): Promise<Surroundings> {
    const libvirt = await LibvirtHost.open({ socketPath: host.libvirtd.socketPath })
    const [network] = await libvirt.networks.list()
    const device = `/sys/class/net/${await network!.bridgeName()}`
    const subnet = readSubnet(await network!.xml())!
    const [mac, index] = (await host.libvirtd.exec('cat', `${device}/address`, `${device}/ifindex`)).trim().split('\n')
    const gateway = { mac: mac!, ip: gatewayOf(subnet) }
    const facts = { gateway, index: Number(index), free: guestAddress(subnet, 4_000)! }
    const around = new Surroundings(host, network!, facts)
    const { name, bridge } = others
    await (await libvirt.networks.define(networkXml(name, bridge, others.subnet))).create()
    await around.exec('/bin/sh', '-c', layOut(around.stranger))
    return around
  }

  /** Runs a program on the host. */
  exec(command: string, ...words: string[]): Promise<string> {
    return this.#host.libvirtd.exec(command, ...words)
  }

  leases(): Promise<DhcpLease[]> {
    return this.#network.leases()
  }

  /** What answers the host there, by its name. */
  async reaches(at: string): Promise<string> {
    return (await this.exec('/bin/sh', '-c', `busybox nc -w 9 ${at.replace(':', ' ')} </dev/null`)).trim()
  }

  /** The last datagram that a listener there waits for. */
  async sayEnd(ip: string): Promise<void> {
    const to = `pack("SnC4x8",2,9,${ip.replaceAll('.', ',')})`
    await this.exec('perl', '-e', `socket(S,2,2,0);send(S,"dormouse-end",0,${to})or die$!`)
  }
}
