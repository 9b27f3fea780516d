// A Debian machine in emulated QEMU. Its processor has AMD's SVM, which QEMU emulates, so KVM works in it.
import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { endWithUs } from '../../scripts/testbed/end-with-us.ts'
import { identify, run, type Say } from '../../scripts/testbed/processes.ts'
import { overSsh, type Reach } from '../install/secure-shell.ts'
import { waitFor } from '../wait-for.ts'
import { emulatedImage, macOf } from './emulated-image.ts'
import { addressOf, type Network } from './network.ts'

const bootMs = 900_000
// tsc=reliable: an emulated machine would read the time from a slow device otherwise.
const kernelWords = 'root=/dev/vda rw console=ttyS0 quiet loglevel=3 mitigations=off nokaslr tsc=reliable net.ifnames=0'

export interface EmulatedOptions {
  network: Network
  /** Of the two that an image has an address for: 21 or 22. */
  number: number
  include: readonly string[]
  say: Say
}

export class EmulatedMachine implements AsyncDisposable {
  readonly reach: Reach
  readonly #folder: string
  readonly #qemu: ChildProcess

  private constructor(folder: string, reach: Reach, qemu: ChildProcess) {
    this.#folder = folder
    this.reach = reach
    this.#qemu = qemu
  }

  /** Boots a machine whose disk is below the folder. */
  static async boot(folder: string, { network, number, include, say }: EmulatedOptions): Promise<EmulatedMachine> {
    const image = await emulatedImage(include, say)
    mkdirSync(folder, { recursive: true })
    const disk = join(folder, 'disk.qcow2')
    await run('qemu-img', ['create', '-q', '-f', 'qcow2', '-F', 'qcow2', '-b', join(image, 'disk.qcow2'), disk])
    const tap = `tap${number}`
    network.joinTap(tap)
    const words = [
      ...['qemu-system-x86_64', '-machine', 'q35', '-accel', 'tcg,thread=multi,tb-size=512', '-cpu', 'max'],
      ...['-smp', '2', '-m', '3072', '-nodefaults', '-no-user-config', '-display', 'none', '-uuid', randomUUID()],
      ...['-kernel', join(image, 'vmlinuz'), '-initrd', join(image, 'initrd'), '-append', kernelWords],
      ...['-drive', `file=${disk},if=virtio,cache=unsafe,discard=unmap`],
      ...['-netdev', `tap,id=net0,ifname=${tap},script=no,downscript=no`],
      ...['-device', `virtio-net-pci,netdev=net0,mac=${macOf(number)}`, '-device', 'virtio-rng-pci'],
      ...['-chardev', `file,id=console,path=${join(folder, 'console')}`, '-serial', 'chardev:console'],
    ]
    const qemu = spawn('nsenter', [`--net=${network.path}`, ...words], { stdio: ['ignore', 'ignore', 'inherit'] })
    endWithUs(identify(qemu.pid!)!, 'SIGKILL')
    const reach = { key: join(image, 'key'), address: addressOf(number), port: 22, network: network.path }
    const machine = new EmulatedMachine(folder, reach, qemu)
    await machine.#answers()
    return machine
  }

  /** Runs a command as root, with this input. */
  ssh(command: string, input?: string): Promise<string> {
    return overSsh(this.reach, command, input)
  }

  async reboot(): Promise<void> {
    const before = await this.ssh(bootId)
    await this.ssh('systemctl reboot').catch(() => undefined)
    await this.#answers(before)
  }

  /** Waits for an SSH server of another boot than this one. */
  async #answers(before?: string): Promise<void> {
    const look = () =>
      this.ssh(bootId).then(
        (boot) => boot !== before,
        () => false,
      )
    await waitFor('the SSH server', look, bootMs).catch((error: Error) => {
      throw new Error(`${error.message}\n${readFileSync(join(this.#folder, 'console'), 'utf8').slice(-3_000)}`)
    })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = new Promise((resolve) => this.#qemu.once('exit', resolve))
    this.#qemu.kill('SIGKILL')
    await ended
    rmSync(this.#folder, { recursive: true, force: true })
  }
}

const bootId = 'cat /proc/sys/kernel/random/boot_id'
