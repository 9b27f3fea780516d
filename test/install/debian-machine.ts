// A Debian machine with systemd as its first process and an SSH server, in a container of systemd-nspawn. Its root is made by
// mmdebstrap, from the mirror that this machine uses.
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { appendFileSync, closeSync, cpSync, mkdirSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { endWithUs } from '../../scripts/testbed/end-with-us.ts'
import { identify, run } from '../../scripts/testbed/processes.ts'
import { freePort } from '../free-port.ts'
import { waitFor } from '../wait-for.ts'

/** What a minimal installation with an SSH server has. */
const packages = ['systemd', 'systemd-sysv', 'dbus', 'openssh-server', 'sudo', 'iproute2', 'ca-certificates']
export const password = 'a password of the test'

export interface DebianOptions {
  suite?: string
  /** Installed besides what a minimal installation has. */
  include?: readonly string[]
  /** The path of a network namespace; by default the machine's own network. */
  network?: string
}

export class DebianMachine implements AsyncDisposable {
  readonly port: number
  readonly key: string
  readonly #folder: string
  readonly #container: ChildProcess
  readonly #network: string | undefined

  private constructor(folder: string, port: number, container: ChildProcess, network: string | undefined) {
    this.#folder = folder
    this.port = port
    this.#container = container
    this.#network = network
    this.key = join(folder, 'key')
  }

  /** Makes the root below the folder, and boots it. */
  static async boot(
    folder: string,
    { suite = 'bookworm', include = [], network }: DebianOptions = {},
  ): Promise<DebianMachine> {
    mkdirSync(folder, { recursive: true })
    const root = join(folder, 'machine')
    const all = [...packages, ...include].join(',')
    await run('mmdebstrap', ['--quiet', '--variant=apt', `--include=${all}`, suite, root])
    execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', join(folder, 'key')])
    const port = await freePort()
    writeFileSync(join(root, 'etc/ssh/sshd_config.d/test.conf'), `ListenAddress 127.0.0.1\nPort ${port}\n`)
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
    const log = openSync(join(folder, 'boot.log'), 'a')
    const own = network ? [`--network-namespace-path=${network}`] : []
    const words = ['--quiet', '--register=no', '--keep-unit', '--boot', ...own, '--directory', root]
    const container = spawn('systemd-nspawn', words, { stdio: ['ignore', log, log] })
    closeSync(log)
    endWithUs(identify(container.pid!)!, 'SIGKILL')
    const machine = new DebianMachine(folder, port, container, network)
    await waitFor('the SSH server', () => (network ? machine.answers() : isListening(port))).catch((error: Error) => {
      throw new Error(`${error.message}\n${readFileSync(join(folder, 'boot.log'), 'utf8').slice(-2_000)}`)
    })
    return machine
  }

  get root(): string {
    return join(this.#folder, 'machine')
  }

  /** Without the machine's own cgroups, libvirt cannot make any for guests: a container's are read-only. */
  withoutCgroups(): void {
    appendFileSync(join(this.root, 'etc/libvirt/qemu.conf'), '\ncgroup_controllers = []\n')
  }

  /** Arguments with which `ssh` logs in, and reads nothing of the user's own. */
  get sshArgs(): string[] {
    const options = ['StrictHostKeyChecking=no', 'UserKnownHostsFile=/dev/null', 'LogLevel=ERROR']
    return ['-F', 'none', '-i', this.key, ...options.flatMap((option) => ['-o', option])]
  }

  /** Runs a command as root. */
  ssh(command: string): Promise<string> {
    const words = ['ssh', ...this.sshArgs, '-p', String(this.port), 'root@127.0.0.1', command]
    const [program, ...rest] = this.#network ? ['nsenter', `--net=${this.#network}`, ...words] : words
    return run(program!, rest)
  }

  private answers(): Promise<boolean> {
    return this.ssh('true').then(
      () => true,
      () => false,
    )
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = new Promise((resolve) => this.#container.once('exit', resolve))
    // The second signal ends it without waiting for its services.
    this.#container.kill('SIGTERM')
    this.#container.kill('SIGTERM')
    await ended
    rmSync(this.root, { recursive: true, force: true })
  }
}

function isListening(port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const socket = connect(port, '127.0.0.1')
  socket
    .once('data', () => resolve(true))
    .once('error', () => resolve(false))
    .once('close', () => resolve(false))
  return promise.finally(() => socket.destroy())
}
