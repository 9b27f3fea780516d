// A libvirtd without a hypervisor, for a real agent: it starts whatever desktop it is asked for, and behind the sockets of
// each stands a guest of ours, which may say anything. Knows nothing of what guests say.
import { once } from 'node:events'
import { rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import { errorCode, poolState } from '@dormouse/node-libvirt'
import { FakeDaemon, Refusal } from '@dormouse/node-libvirt/testing'

/** What stands behind the sockets of one desktop. */
export interface Guest {
  /** Returns a command of the host's to its agent. */
  agent(command: string): Promise<string>
  /** Somebody has opened the port of its SSH server. */
  port(socket: Socket): void
  /** Somebody has opened its screen. */
  screen(socket: Socket): void
}

interface Machine {
  guest: Guest
  ref: { name: string; uuid: string; id: number }
  xml: string
  mark: string
  servers: Server[]
  sockets: Set<Socket>
}

const domainRunning = 1
const capabilities = `<capabilities><guest><os_type>hvm</os_type><arch name='x86_64'><emulator>/usr/bin/qemu</emulator>
<machine canonical='pc-1'>pc</machine><domain type='qemu'/></arch></guest></capabilities>`

export class Hypervisor implements AsyncDisposable {
  readonly #daemon: FakeDaemon
  readonly #makeGuest: (uuid: string) => Guest
  readonly #machines = new Map<string, Machine>()
  readonly #volumes = new Map<string, string>()
  #pool = { name: '', xml: '' }

  private constructor(daemon: FakeDaemon, makeGuest: (uuid: string) => Guest) {
    this.#daemon = daemon
    this.#makeGuest = makeGuest
    this.#answerForHost()
    this.#answerForDisks()
    this.#answerForDomains()
    this.#answerForGuests()
  }

  static async start(makeGuest: (uuid: string) => Guest): Promise<Hypervisor> {
    return new Hypervisor(await FakeDaemon.start(), makeGuest)
  }

  get socketPath(): string {
    return this.#daemon.socketPath
  }

  /** Whoever has opened a port or the screen of the desktop is cut off. */
  cut(uuid: string): void {
    for (const socket of this.#machines.get(uuid)?.sockets ?? []) socket.destroy()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const uuid of [...this.#machines.keys()]) this.#end(uuid)
    await this.#daemon[Symbol.asyncDispose]()
  }

  #answerForHost(): void {
    const version = () => ({ version: 9_000_000n })
    this.#daemon.answer('connectGetCapabilities', () => ({ xml: capabilities }))
    this.#daemon.answer('connectGetVersion', version)
    this.#daemon.answer('connectGetLibVersion', version)
    const node = { model: 'x86_64', cpus: 64, mhz: 1, nodes: 1, sockets: 1, cores: 64, threads: 1 }
    this.#daemon.answer('nodeGetInfo', () => ({ ...node, memoryKiB: 512n * 1024n * 1024n }))
  }

  #answerForDisks(): void {
    const pool = () => ({ pool: { name: this.#pool.name, uuid: '00000000-0000-4000-8000-000000000000' } })
    const volume = (name: string) => ({ volume: { pool: this.#pool.name, name, key: name } })
    this.#daemon.answer('storagePoolLookupByName', ({ name }) =>
      name === this.#pool.name ? pool() : refuse('noStoragePool'),
    )
    this.#daemon.answer('storagePoolDefineXML', ({ xml }) => {
      this.#pool = { name: inside(xml, 'name'), xml }
      return pool()
    })
    this.#daemon.answer('storagePoolGetXMLDesc', () => ({ xml: this.#pool.xml }))
    const sizes = { capacity: 1n, allocation: 1n, available: 1n }
    this.#daemon.answer('storagePoolGetInfo', () => ({ state: poolState.running, ...sizes }))
    this.#daemon.answer('storagePoolSetAutostart', () => ({}))
    this.#daemon.answer('storagePoolRefresh', () => ({}))
    this.#daemon.answer('storageVolCreateXML', ({ xml }) => {
      const name = inside(xml, 'name')
      writeFileSync(join(inside(this.#pool.xml, 'path'), name), overlayOn(inside(xml, 'path')))
      this.#volumes.set(name, xml)
      return volume(name)
    })
    this.#daemon.answer('storageVolLookupByName', ({ name }) =>
      this.#volumes.has(name) ? volume(name) : refuse('noStorageVol'),
    )
    this.#daemon.answer('storageVolGetXMLDesc', ({ volume: { name } }) => ({ xml: this.#volumes.get(name)! }))
    this.#daemon.answer('storageVolDelete', ({ volume: { name } }) => {
      rmSync(join(inside(this.#pool.xml, 'path'), name), { force: true })
      this.#volumes.delete(name)
      return {}
    })
  }

  #answerForDomains(): void {
    this.#daemon.answer('connectListAllDomains', () => {
      const domains = [...this.#machines.values()].map(({ ref }) => ref)
      return { domains, count: domains.length }
    })
    this.#daemon.answer('domainCreateXML', async ({ xml }) => ({ domain: await this.#begin(xml) }))
    this.#daemon.answer('domainGetState', ({ domain }) => {
      this.#machine(domain)
      return { state: domainRunning, reason: 1 }
    })
    this.#daemon.answer('domainGetXMLDesc', ({ domain }) => ({ xml: this.#machine(domain).xml }))
    this.#daemon.answer('domainGetMetadata', ({ domain }) => ({ metadata: this.#machine(domain).mark }))
    this.#daemon.answer('domainSetMetadata', ({ domain, metadata }) => {
      this.#machine(domain).mark = metadata ?? ''
      return {}
    })
    this.#daemon.answer('domainDestroyFlags', ({ domain }) => {
      this.#machine(domain)
      this.#end(domain.uuid)
      return {}
    })
    this.#daemon.answer('domainUndefineFlags', () => refuse('noDomain'))
    this.#daemon.answer('domainGetJobInfo', () => refuse('operationInvalid'))
  }

  #answerForGuests(): void {
    this.#daemon.answer('domainAgentSetResponseTimeout', () => ({ result: 0 }))
    this.#daemon.answer('domainAgentCommand', async ({ domain, command }) => ({
      answer: await this.#machine(domain).guest.agent(command),
    }))
  }

  #machine({ uuid }: { uuid: string }): Machine {
    return this.#machines.get(uuid) ?? refuse('noDomain')
  }

  async #begin(xml: string): Promise<Machine['ref']> {
    const uuid = inside(xml, 'uuid')
    const guest = this.#makeGuest(uuid)
    const ref = { name: inside(xml, 'name'), uuid, id: this.#machines.size + 1 }
    const machine: Machine = { guest, ref, xml, mark: inside(xml, 'metadata'), servers: [], sockets: new Set() }
    this.#machines.set(uuid, machine)
    const [screen] = /[^']+\.vnc(?=')/.exec(xml) ?? []
    const [port] = /[^']+\.ssh(?=')/.exec(xml) ?? []
    if (screen) await listen(machine, screen, (socket) => guest.screen(socket))
    if (port) await listen(machine, port, (socket) => guest.port(socket))
    return ref
  }

  #end(uuid: string): void {
    const machine = this.#machines.get(uuid)
    this.#machines.delete(uuid)
    for (const server of machine?.servers ?? []) server.close()
    for (const socket of machine?.sockets ?? []) socket.destroy()
  }
}

async function listen(machine: Machine, path: string, opened: (socket: Socket) => void): Promise<void> {
  rmSync(path, { force: true })
  const server = createServer((socket) => {
    machine.sockets.add(socket)
    socket.on('error', () => undefined).once('close', () => machine.sockets.delete(socket))
    opened(socket)
  })
  machine.servers.push(server)
  await once(server.listen(path), 'listening')
}

const inside = (xml: string, element: string): string =>
  new RegExp(`<${element}>([\\s\\S]*?)</${element}>`).exec(xml)?.[1] ?? ''

function refuse(code: keyof typeof errorCode): never {
  throw new Refusal(errorCode[code], code)
}

/** The header of a qcow2 disk with that backing file: all of it that an agent reads. */
function overlayOn(backingFile: string): Buffer {
  const header = Buffer.alloc(104)
  header.writeUInt32BE(0x514649fb, 0)
  header.writeUInt32BE(3, 4)
  header.writeBigUInt64BE(BigInt(header.length), 8)
  header.writeUInt32BE(Buffer.byteLength(backingFile), 16)
  return Buffer.concat([header, Buffer.from(backingFile)])
}
