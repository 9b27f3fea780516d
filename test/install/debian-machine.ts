// A Debian machine with systemd as its first process and an SSH server, in a container of systemd-nspawn.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { appendFileSync, closeSync, cpSync, mkdirSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { endWithUs } from '../../scripts/testbed/end-with-us.ts'
import { identify, run } from '../../scripts/testbed/processes.ts'
import { freePort } from '../free-port.ts'
import { waitFor } from '../wait-for.ts'
import { debianTree } from './debian-tree.ts'
import { overSsh, type Reach, sshArgs } from './secure-shell.ts'

export const password = 'a password of the test'
const bootMs = 120_000

export interface DebianOptions {
  suite?: string
  /** Installed besides what a minimal installation has. */
  include?: readonly string[]
  /** Its own network, and from where it is reached; by default this machine's network. */
  network?: { path: string; address: string; reachedFrom: string } | undefined
}

export class DebianMachine implements AsyncDisposable {
  readonly reach: Reach
  readonly #folder: string
  readonly #network: string | undefined
  #container: ChildProcess

  private constructor(folder: string, reach: Reach, network: string | undefined) {
    this.#folder = folder
    this.#network = network
    this.reach = reach
    this.#container = this.#start()
  }

  /** Copies a Debian below the folder, and boots it. */
  static async boot(
    folder: string,
    { suite = 'bookworm', include = [], network }: DebianOptions = {},
  ): Promise<DebianMachine> {
    mkdirSync(folder, { recursive: true })
    const root = join(folder, 'machine')
    const key = join(folder, 'key')
    await run('cp', ['-a', '--reflink=auto', await debianTree(suite, include), root])
    execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', key])
    const address = network?.address ?? '127.0.0.1'
    const port = network ? 22 : await freePort()
    writeFileSync(join(root, 'etc/ssh/sshd_config.d/test.conf'), `ListenAddress ${address}\nPort ${port}\n`)
    execFileSync('chroot', [root, 'useradd', '--create-home', '--shell', '/bin/bash', 'op'])
    for (const [user, home] of [
      ['root', 'root'],
      ['op', 'home/op'],
    ]) {
      mkdirSync(join(root, home!, '.ssh'), { recursive: true, mode: 0o700 })
      cpSync(join(folder, 'key.pub'), join(root, home!, '.ssh/authorized_keys'))
      execFileSync('chroot', [root, 'chown', '-R', `${user}:`, `/${home}/.ssh`])
    }
    execFileSync('chroot', [root, 'chpasswd'], { input: `op:${password}\n` })
    writeFileSync(join(root, 'etc/sudoers.d/op'), 'op ALL=(ALL) ALL\n', { mode: 0o440 })
    const machine = new DebianMachine(folder, { key, address, port, network: network?.reachedFrom }, network?.path)
    await machine.#answers()
    return machine
  }

  get root(): string {
    return join(this.#folder, 'machine')
  }

  get port(): number {
    return this.reach.port
  }

  /** Without the machine's own cgroups, libvirt cannot make any for guests: a container's are read-only. */
  withoutCgroups(): void {
    appendFileSync(join(this.root, 'etc/libvirt/qemu.conf'), '\ncgroup_controllers = []\n')
  }

  /** Arguments with which `ssh` logs in, and reads nothing of the user's own. */
  get sshArgs(): string[] {
    return sshArgs(this.reach.key)
  }

  /** Runs a command as root, with this input. */
  ssh(command: string, input?: string): Promise<string> {
    return overSsh(this.reach, command, input)
  }

  async reboot(): Promise<void> {
    const ended = this.#ended()
    await this.ssh('systemctl reboot').catch(() => undefined)
    await ended
    this.#container = this.#start()
    await this.#answers()
  }

  #start(): ChildProcess {
    const log = openSync(join(this.#folder, 'boot.log'), 'a')
    const own = this.#network ? [`--network-namespace-path=${this.#network}`] : []
    const words = ['--quiet', '--register=no', '--keep-unit', '--boot', ...own, '--directory', this.root]
    const container = spawn('systemd-nspawn', words, { stdio: ['ignore', log, log] })
    closeSync(log)
    endWithUs(identify(container.pid!)!, 'SIGKILL')
    return container
  }

  async #answers(): Promise<void> {
    const look = () =>
      this.ssh('true').then(
        () => true,
        () => false,
      )
    await waitFor('the SSH server', look, bootMs).catch((error: Error) => {
      throw new Error(`${error.message}\n${readFileSync(join(this.#folder, 'boot.log'), 'utf8').slice(-2_000)}`)
    })
  }

  #ended(): Promise<unknown> {
    return new Promise((resolve) => this.#container.once('exit', resolve))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = this.#ended()
    // The second signal ends it without waiting for its services.
    this.#container.kill('SIGTERM')
    this.#container.kill('SIGTERM')
    await ended
    rmSync(this.root, { recursive: true, force: true })
  }
}
