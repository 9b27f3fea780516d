// An agent's decisions over a real libvirt and QEMU, without a control plane: one private libvirtd for a file of tests,
// and benches on it, each an installation of its own.
import { appendFileSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { namePrefix } from '@dormouse/agent/driver/libvirt/domain-xml.ts'
import { LibvirtDriver } from '@dormouse/agent/driver/libvirt/libvirt.ts'
import type { LibvirtSettings } from '@dormouse/agent/driver/libvirt/settings.ts'
import { installationName } from '@dormouse/agent/driver/libvirt/storage-pool.ts'
import { Bench, type BenchOptions } from '@dormouse/agent/testing/bench.ts'
import type { DesktopSpec } from '@dormouse/contract'
import { createLog, type Log } from '@dormouse/process'
import { ensureMiniImage } from '../../../infra/guest-image/mini.ts'
import { endWithUs } from '../../../scripts/testbed/end-with-us.ts'
import { type PrivateLibvirtd, startPrivateLibvirtd } from '../../../scripts/testbed/libvirtd.ts'
import { identify, run } from '../../../scripts/testbed/processes.ts'
import { Secrets } from '../../secrets.ts'

export const guestSpec: DesktopSpec = { vcpus: 1, memoryMiB: 256, diskGiB: 1, imageVersion: 'mini' }
/** Enough for one saved guest, and not for much beside it. */
export const smallMiB = 300
const smallFolders = ['small', 'other-small'] as const
/** The kernel of another release of Debian: `npm run test:kernels` sets it. */
const kernelOf = process.env.DORMOUSE_TEST_KERNEL_OF
const images = kernelOf ? `images-${kernelOf}` : 'images'
const imagesDir = fileURLToPath(new URL(`../../../.dormouse-test/${images}`, import.meta.url))

/** The settings of an agent that has its files in that folder. */
export const settingsOf = (folder: string, socketPath: string): LibvirtSettings => ({
  socketPath,
  disksDir: join(folder, 'disks'),
  consolesDir: join(folder, 'consoles'),
  imagesDir,
  // Those that libvirt chooses are in its own namespace, and an agent in this one cannot open them.
  socketsDir: join(dirname(socketPath), 'sockets'),
  movesDir: join(folder, 'moves'),
  kvm: 'off',
  cpuModel: 'qemu64',
  network: 'none',
  networkPrefix: undefined,
  networkAllow: [],
  capacity: { processors: undefined, memoryMiB: undefined, diskGiB: undefined },
  shareTemplates: 'off',
})

export class Stage {
  readonly libvirtd: PrivateLibvirtd
  /** The path of its guests' image. */
  readonly miniImage: string
  readonly #folder: string
  readonly #log: Log
  readonly #unbind: () => void

  private constructor(folder: string, miniImage: string, libvirtd: PrivateLibvirtd, unbind: () => void) {
    this.#folder = folder
    this.#unbind = unbind
    this.miniImage = miniImage
    this.libvirtd = libvirtd
    const write = (line: string) => appendFileSync(join(folder, 'stage.log'), line)
    this.#log = createLog({ name: 'stage', level: 'trace', destination: { write } })
  }

  /** `ownUser`: QEMU runs as a user of its own. */
  static async start({ ownUser }: { ownUser?: boolean } = {}): Promise<Stage> {
    const folder = mkdtempSync(join(tmpdir(), 'dormouse-stage-'))
    const unbind = endWithUs(identify(process.pid)!, 'SIGKILL', folder)
    const say = () => undefined
    const { dir: image } = await ensureMiniImage({ imagesDir, say, kernelOf })
    // Before libvirt's namespaces are made, so that both see it.
    for (const name of smallFolders) {
      mkdirSync(join(folder, name))
      await run('mount', ['-t', 'tmpfs', '-o', `size=${smallMiB}m`, 'tmpfs', join(folder, name)])
    }
    const named = { name: 'stage', hostUuid: crypto.randomUUID() }
    const libvirtd = await startPrivateLibvirtd({ dir: folder, ...named, ownUser, say, endsWithUs: true })
    return new Stage(folder, image, libvirtd, unbind)
  }

  get #virsh(): string[] {
    return ['-q', '-c', `qemu+unix:///system?socket=${this.libvirtd.socketPath}`]
  }

  /** An agent of a new installation, or of the one that is named. */
  bench(
    name: string,
    settings: Partial<LibvirtSettings> = {},
    memoryFolder?: string,
    installationId?: string,
    warm?: BenchOptions<LibvirtDriver>['warm'],
    templatesMiB?: number,
  ): Promise<Bench<LibvirtDriver>> {
    const folder = join(this.libvirtd.shortDir, name)
    const makeDriver = () =>
      new LibvirtDriver({ ...settingsOf(folder, this.libvirtd.socketPath), ...settings }, this.#log)
    const given = {
      ...(memoryFolder && { memoryFolder }),
      ...(installationId && { installationId }),
      warm,
      templatesMiB,
    }
    return Bench.over({ folder, makeDriver, ...given })
  }

  /** The guest's file system, as it lies on its disk now, is without a fault. */
  async checkDisk(bench: Bench<LibvirtDriver>, desktopId: string): Promise<void> {
    const raw = join(this.#folder, 'check.raw')
    const disk = join(bench.folder, 'disks', `${desktopId}.qcow2`)
    await run('qemu-img', ['convert', '-O', 'raw', disk, raw])
    // What the journal holds belongs to the disk; after that nothing may be left to repair.
    await run('e2fsck', ['-y', '-E', 'journal_only', raw])
    await run('e2fsck', ['-f', '-n', raw])
    rmSync(raw)
  }

  /** Two folders with so little space that they fill up, on a file system each; the same for us and for libvirt. */
  get smallFolder(): string {
    return join(this.#folder, smallFolders[0])
  }

  get otherSmallFolder(): string {
    return join(this.#folder, smallFolders[1])
  }

  /** An agent of the same installation may then keep its disks elsewhere. The files stay. */
  async undefinePool({ installationId }: Pick<Bench, 'installationId'>): Promise<void> {
    const name = installationName(installationId)
    const listed = await run('virsh', [...this.#virsh, 'pool-list', '--all', '--name'])
    if (!listed.split('\n').some((line) => line.trim() === name)) return
    for (const command of ['pool-destroy', 'pool-undefine']) await run('virsh', [...this.#virsh, command, name])
  }

  /** The names of all domains of an installation. */
  async domains({ installationId }: Pick<Bench, 'installationId'>): Promise<string[]> {
    const listed = await run('virsh', [...this.#virsh, 'list', '--all', '--name'])
    return listed.split('\n').filter((name) => name.startsWith(namePrefix(installationId)))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.libvirtd.stop()
    await run('umount', ['-l', this.smallFolder, this.otherSmallFolder])
    this.#unbind()
    const told = new Secrets().inLogFiles(this.#folder)
    if (told.length > 0) throw new Error(`the logs of the stage were kept, for they are not clean: ${told.join('; ')}`)
    rmSync(this.#folder, { recursive: true, force: true })
  }
}

type Runs = Pick<Bench<LibvirtDriver>, 'run'>

export interface Witness {
  bootId: string
  memoryHash: string
  counter: number
}

// An emulated guest is slow: random bytes are repeated, each time behind a number, and the counter starts no programs.
const leave = (memoryMiB: number) => `dd if=/dev/urandom of=/run/seed bs=1M count=4 2>/dev/null
for n in $(seq ${memoryMiB / 4}); do echo $n; cat /run/seed; done > /run/memory; rm /run/seed
echo kept > /root/note; sync
echo 0 > /run/counter
(n=0; while :; do n=$((n + 1)); echo $n 1<> /run/counter; echo $n >> /root/log; sleep 0.1; done) > /dev/null 2>&1 < /dev/null &`

/** A counter that runs and writes to the disk too, this much random memory (a multiple of 4 MiB), a file. */
export async function leaveWitness(bench: Runs, desktopId: string, memoryMiB = 8): Promise<Witness> {
  await bench.run(desktopId, leave(memoryMiB))
  return lookAt(bench, desktopId)
}

export async function lookAt(bench: Runs, desktopId: string): Promise<Witness> {
  // A CRC: an emulated guest takes several times as long for an MD5.
  const look = 'cat /proc/sys/kernel/random/boot_id; crc32 /run/memory; cat /run/counter'
  const [bootId = '', memoryHash = '', counter] = (await bench.run(desktopId, look)).split('\n')
  if (!/^[0-9a-f]{8}\b/.test(memoryHash)) throw new Error(`not a checksum: ${memoryHash}`)
  return { bootId, memoryHash, counter: Number(counter) }
}
