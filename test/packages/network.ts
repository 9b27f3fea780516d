// A network of machines: a bridge in a namespace of its own, a namespace for each container, a tap for each emulated machine.
// Nothing leads out of it, and it ends with the test.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { readlinkSync } from 'node:fs'
import { endWithUs } from '../../scripts/testbed/end-with-us.ts'
import { identify } from '../../scripts/testbed/processes.ts'
import { waitFor } from '../wait-for.ts'

/** The test's own address in the network has the number 1. */
export const addressOf = (number: number) => `10.0.0.${number}`

export class Network implements Disposable {
  readonly #bridge: Namespace
  readonly #joined: Namespace[] = []

  private constructor(bridge: Namespace) {
    this.#bridge = bridge
  }

  static async create(): Promise<Network> {
    const bridge = await Namespace.create()
    bridge.ip('link', 'add', 'bridge', 'type', 'bridge')
    bridge.ip('address', 'add', `${addressOf(1)}/24`, 'dev', 'bridge')
    bridge.ip('link', 'set', 'bridge', 'up')
    return new Network(bridge)
  }

  /** The namespace with the bridge, from which every machine is reached. */
  get path(): string {
    return this.#bridge.path
  }

  /** Returns the path of a namespace with this address. */
  async joinContainer(name: string, address: string): Promise<string> {
    const own = await Namespace.create()
    this.#joined.push(own)
    this.#bridge.ip('link', 'add', name, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', String(own.pid))
    this.#bridge.ip('link', 'set', name, 'master', 'bridge', 'up')
    own.ip('address', 'add', `${address}/24`, 'dev', 'eth0')
    own.ip('link', 'set', 'eth0', 'up')
    return own.path
  }

  /** Makes a tap with this name, for a machine that sets its address itself. */
  joinTap(name: string): void {
    this.#bridge.ip('tuntap', 'add', 'mode', 'tap', 'name', name)
    this.#bridge.ip('link', 'set', name, 'master', 'bridge', 'up')
  }

  [Symbol.dispose](): void {
    for (const each of [...this.#joined, this.#bridge]) each[Symbol.dispose]()
  }
}

/** Lasts as long as a process in it. */
class Namespace implements Disposable {
  readonly #holder: ChildProcess

  private constructor(holder: ChildProcess) {
    this.#holder = holder
  }

  static async create(): Promise<Namespace> {
    const holder = spawn('unshare', ['--net', 'sleep', 'infinity'], { stdio: 'ignore' })
    endWithUs(identify(holder.pid!)!, 'SIGKILL')
    const made = new Namespace(holder)
    await waitFor('a network namespace', () => readlinkSync(made.path) !== readlinkSync('/proc/self/ns/net'))
    made.ip('link', 'set', 'lo', 'up')
    return made
  }

  get pid(): number {
    return this.#holder.pid!
  }

  get path(): string {
    return `/proc/${this.pid}/ns/net`
  }

  ip(...words: string[]): void {
    execFileSync('nsenter', [`--net=${this.path}`, 'ip', ...words], { stdio: ['ignore', 'ignore', 'inherit'] })
  }

  [Symbol.dispose](): void {
    this.#holder.kill('SIGKILL')
  }
}
