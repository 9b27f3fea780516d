/**
 * For tests: a libvirtd of our own in namespaces of its own (mounts, network, processes), which sees nothing of the
 * machine's and leaves nothing behind. Needs root. A daemon that is killed comes back by itself.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { LibvirtHost } from '../host.ts'

/** Hosts of one id would refuse to send each other a machine. */
const daemonConfig = () => `host_uuid = "${crypto.randomUUID()}"
unix_sock_group = "root"
unix_sock_rw_perms = "0700"
auth_unix_rw = "none"
`
const qemuConfig = `user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
security_driver = "none"
namespaces = []
cgroup_controllers = []
stdio_handler = "file"
`
const startTimeoutMs = 60_000
/** Names that libvirtd looks up and only a package with a daemon for the machine makes; nothing runs under them here. */
const accounts = {
  '/etc/passwd': 'libvirt-qemu:x:64055:64055::/:/usr/sbin/nologin',
  '/etc/group': 'libvirt-qemu:x:64055:',
}

/** What libvirtd writes to, each bound over by a folder of ours. */
const folders = ['/run', '/etc/libvirt', '/var/lib/libvirt', '/var/cache/libvirt', '/var/log/libvirt']

/** PID 1 of the namespace: bash reaps what QEMUs leave at once, on which the speed of a destroy depends. */
const init = (folder: string) => `mount --make-rprivate /
ip link set lo up
${folders.map((it) => `mkdir -p ${it}; mount --bind ${folder}${it} ${it}`).join('\n')}
${Object.keys(accounts)
  .map((it) => `mount --bind ${folder}${it} ${it}`)
  .join('\n')}
while :; do libvirtd -p ${folder}/pid >>${folder}/log 2>&1; sleep 0.05; done`

export class PrivateLibvirtd implements AsyncDisposable {
  readonly folder: string
  readonly socketPath: string
  readonly #init: ChildProcess

  private constructor() {
    this.folder = mkdtempSync(join(tmpdir(), 'libvirtd-'))
    this.socketPath = `${this.folder}/run/libvirt/libvirt-sock`
    for (const it of folders) mkdirSync(this.folder + it, { recursive: true })
    writeFileSync(`${this.folder}/etc/libvirt/libvirtd.conf`, daemonConfig())
    writeFileSync(`${this.folder}/etc/libvirt/qemu.conf`, qemuConfig)
    for (const [file, entry] of Object.entries(accounts))
      writeFileSync(this.folder + file, `${readFileSync(file, 'utf8').trimEnd()}\n${entry}\n`)
    const dyingWithUs = ['--pdeathsig', 'KILL', 'unshare', '--fork', '--kill-child']
    const namespaces = ['-m', '-n', '-p', '-u', '--mount-proc']
    const command = [...dyingWithUs, ...namespaces, 'bash', '-c', init(this.folder)]
    this.#init = spawn('setpriv', command, { stdio: 'ignore' })
  }

  /** Resolves when the daemon serves QEMU. */
  static async start(): Promise<PrivateLibvirtd> {
    const libvirtd = new PrivateLibvirtd()
    try {
      await serving(libvirtd.socketPath)
      return libvirtd
    } catch (error) {
      await libvirtd[Symbol.asyncDispose]()
      throw error
    }
  }

  /** Sends the daemon itself a signal; its QEMUs live on. */
  signal(signal: NodeJS.Signals): void {
    const [bash] = children(this.#init.pid)
    const [libvirtd] = children(bash)
    if (libvirtd) process.kill(libvirtd, signal)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const exited = once(this.#init, 'exit')
    this.#init.kill('SIGKILL')
    await exited
    rmSync(this.folder, { recursive: true, force: true })
  }
}

/** It listens before its QEMU driver is there: only an open connection to that one proves the daemon. */
async function serving(socketPath: string): Promise<void> {
  const end = performance.now() + startTimeoutMs
  for (;;) {
    try {
      const host = await LibvirtHost.open({ socketPath })
      return host.close()
    } catch (error) {
      if (performance.now() > end) throw new Error(`libvirtd does not serve: ${(error as Error).message}`)
    }
    await sleep(5)
  }
}

function children(pid: number | undefined): number[] {
  if (pid === undefined) return []
  return readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').split(' ').filter(Boolean).map(Number)
}
