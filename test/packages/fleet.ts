// The machines of docs/production.md, in a network of their own, with the packages' repository. Control planes run Debian 13 in
// containers of systemd-nspawn, hosts run Debian 12 in emulated QEMU.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ensureMiniImage } from '../../infra/guest-image/mini.ts'
import { ensureSdk } from '../../scripts/build/sdk.ts'
import { addToRepository } from '../../scripts/release/apt.ts'
import { packDebian } from '../../scripts/release/debian.ts'
import { endWithUs } from '../../scripts/testbed/end-with-us.ts'
import { identify, type Say } from '../../scripts/testbed/processes.ts'
import { DebianMachine } from '../install/debian-machine.ts'
import { debianTree } from '../install/debian-tree.ts'
import { copyOverSsh } from '../install/secure-shell.ts'
import { emulatedImage } from './emulated-image.ts'
import { EmulatedMachine } from './emulated-machine.ts'
import { addressOf, Network } from './network.ts'

const root = fileURLToPath(new URL('../../', import.meta.url))
const epoch = 1_790_000_000
const signer = 'packages@dormouse.example'

const controlPlaneSuite = 'trixie'
/** Without the mirror: what the page installs from Debian is there already. */
const forControlPlanes = ['curl', 'openssl', 'jq', 'postgresql', 'caddy']
const forHosts = [
  'curl',
  'libvirt-daemon-system',
  'qemu-system-x86',
  'qemu-utils',
  'iptables',
  'nftables',
  'dnsmasq-base',
]
const numbers = { 'cp-1': 11, 'cp-2': 12, 'host-1': 21, 'host-2': 22 }
export type Name = keyof typeof numbers
export const names = Object.keys(numbers) as Name[]
export const isHost = (name: Name) => name.startsWith('host')

const known = [
  `${addressOf(1)} packages.dormouse.example`,
  `${addressOf(11)} dormouse.example cp-1.dormouse.example cp-2.dormouse.example`,
  ...names.map((name) => `${addressOf(numbers[name])} ${name}`),
]
  .map((line) => `${line}\n`)
  .join('')

export class Fleet implements AsyncDisposable {
  readonly #folder = mkdtempSync('/var/tmp/dormouse-production-')
  readonly #machines = new Map<Name, DebianMachine | EmulatedMachine>()
  readonly #network: Network
  readonly #web: ChildProcess
  readonly #say: Say

  private constructor(network: Network, say: Say) {
    this.#network = network
    this.#say = say
    const repository = join(this.#folder, 'repository')
    mkdirSync(repository)
    const served = ['busybox', 'httpd', '-f', '-p', `${addressOf(1)}:80`, '-h', repository]
    this.#web = spawn('nsenter', [`--net=${network.path}`, ...served], { stdio: 'ignore' })
    endWithUs(identify(this.#web.pid!)!, 'SIGKILL', this.#folder)
    mkdirSync(join(this.#folder, 'keys'), { mode: 0o700 })
    process.env.GNUPGHOME = join(this.#folder, 'keys')
    const key = ['--batch', '--passphrase', '', '--quick-generate-key', signer, 'default', 'default']
    execFileSync('gpg', key, { stdio: 'ignore' })
  }

  static async create(say: Say): Promise<Fleet> {
    return new Fleet(await Network.create(), say)
  }

  /** Makes a release with this version, and adds it to the repository. */
  async publish(version: string): Promise<void> {
    await ensureSdk(() => undefined)
    const made = join(this.#folder, 'made')
    mkdirSync(made)
    const npm = join(root, 'apps/control-plane/dist/sdk')
    const files = await packDebian(made, { npm, version, epoch, uncompressed: true, say: this.#say })
    const paths = files.map((file) => join(made, file))
    addToRepository(join(this.#folder, 'repository'), paths, { epoch, key: signer })
    rmSync(made, { recursive: true })
  }

  async boot(): Promise<void> {
    const { dir } = await ensureMiniImage({ imagesDir: join(root, '.dormouse-test/images'), say: this.#say })
    await emulatedImage(forHosts, this.#say)
    await debianTree(controlPlaneSuite, forControlPlanes)
    await Promise.all(names.map((name) => this.#prepare(name, dir)))
  }

  async #prepare(name: Name, image: string): Promise<void> {
    const machine = await this.#boot(name)
    this.#machines.set(name, machine)
    this.#say(`${name}: booted`)
    await machine.ssh('cat >> /etc/hosts', known)
    // The mirror cannot be reached from here.
    await machine.ssh(`hostnamectl set-hostname ${name}; : > /etc/apt/sources.list`)
    if (isHost(name)) await copyOverSsh(machine.reach, image, '/var/lib/dormouse-images/mini')
  }

  async #boot(name: Name): Promise<DebianMachine | EmulatedMachine> {
    const [own, number, network] = [join(this.#folder, name), numbers[name], this.#network]
    if (isHost(name)) return EmulatedMachine.boot(own, { network, number, include: forHosts, say: this.#say })
    const joined = {
      path: await network.joinContainer(name, addressOf(number)),
      address: addressOf(number),
      reachedFrom: network.path,
    }
    return DebianMachine.boot(own, { suite: controlPlaneSuite, include: forControlPlanes, network: joined })
  }

  /** Runs these commands as root, until one fails. A failure comes with the programs' latest log. */
  async on(name: Name, commands: string): Promise<string> {
    await this.put(name, '/root/commands', commands)
    const machine = this.#machines.get(name)!
    const words = 'DEBIAN_FRONTEND=noninteractive bash -eo pipefail /root/commands 2>&1'
    return machine.ssh(words).catch(async (error: Error) => {
      const log = await machine.ssh(`journalctl --no-pager -u 'dormouse-*' -u libvirtd -n 40 -o cat 2>&1`)
      throw new Error(`${name}: ${commands}\n${error.message}\n${log}`)
    })
  }

  async put(name: Name, path: string, text: string): Promise<void> {
    await this.#machines.get(name)!.ssh(`cat > ${path}`, text)
  }

  reboot(name: Name): Promise<void> {
    return this.#machines.get(name)!.reboot()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#web.kill()
    for (const machine of this.#machines.values()) await machine[Symbol.asyncDispose]()
    this.#network[Symbol.dispose]()
    rmSync(this.#folder, { recursive: true, force: true })
  }
}
