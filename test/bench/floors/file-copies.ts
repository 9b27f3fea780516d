// Copies of one file to the same disk: by `cp`, by `rsync` over a local OpenSSH server, and by two agents as in the move of a
// sleeping desktop.
import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { appendFileSync, copyFileSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { receiveFiles } from '@dormouse/agent/moves/copy-in.ts'
import { sendFiles } from '@dormouse/agent/moves/copy-out.ts'
import { DialledTransfer } from '@dormouse/agent/transfer/dial.ts'
import { MoveListener } from '@dormouse/agent/transfer/listener.ts'
import { BytePace, createLog } from '@dormouse/process'
import { endWithUs } from '../../../scripts/testbed/end-with-us.ts'
import { identify, run } from '../../../scripts/testbed/processes.ts'
import { waitFor } from '../../wait-for.ts'
import { cpuMs } from '../cpu.ts'
import type { Measured } from '../subject.ts'

const mib = 1024 * 1024
export const fileMiB = 384

export class FileCopies implements AsyncDisposable {
  readonly #folder = mkdtempSync(join(tmpdir(), 'dormouse-copies-'))
  #sshd: ChildProcess | undefined
  #port = 0

  static async start(): Promise<FileCopies> {
    const copies = new FileCopies()
    const from = copies.#path('from')
    for (let at = 0; at < fileMiB; at++) appendFileSync(from, randomBytes(mib))
    await copies.#startSshd()
    return copies
  }

  #path(name: string): string {
    return join(this.#folder, name)
  }

  async #startSshd(): Promise<void> {
    for (const key of ['host', 'user'])
      await run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', this.#path(key)])
    copyFileSync(this.#path('user.pub'), this.#path('authorized'))
    mkdirSync('/run/sshd', { recursive: true })
    const free = createServer().listen(0, '127.0.0.1')
    await once(free, 'listening')
    this.#port = (free.address() as AddressInfo).port
    free.close()
    const settings = {
      ...{ ListenAddress: `127.0.0.1:${this.#port}`, HostKey: this.#path('host'), UsePAM: 'no', StrictModes: 'no' },
      ...{ AuthorizedKeysFile: this.#path('authorized'), PermitRootLogin: 'yes', PidFile: 'none' },
    }
    const config = Object.entries(settings).map(([name, value]) => `${name} ${value}\n`)
    writeFileSync(this.#path('config'), config.join(''))
    this.#sshd = spawn('/usr/sbin/sshd', ['-D', '-f', this.#path('config')], { stdio: 'ignore' })
    endWithUs(identify(this.#sshd.pid!)!, 'SIGTERM')
    const connects = () =>
      run('ssh', [...this.#ssh().slice(1), '127.0.0.1', 'true']).then(
        () => true,
        () => false,
      )
    await waitFor(connects, 30_000)
  }

  #ssh(): string[] {
    const known = ['-o', 'StrictHostKeyChecking=no', '-o', 'UserKnownHostsFile=/dev/null', '-o', 'LogLevel=ERROR']
    return ['ssh', '-p', String(this.#port), '-i', this.#path('user'), '-o', 'IdentitiesOnly=yes', ...known]
  }

  cp(): Promise<Measured> {
    return this.#measured('cp', () => run('cp', [this.#path('from'), this.#path('to')]))
  }

  rsync(): Promise<Measured> {
    const to = `127.0.0.1:${this.#path('to')}`
    return this.#measured('rsync', () => run('rsync', ['-S', '-e', this.#ssh().join(' '), this.#path('from'), to]))
  }

  async agents(): Promise<Measured> {
    const log = createLog({ name: 'copies', level: 'silent' })
    const common = { moveId: 'copy', key: randomBytes(32), pace: new BytePace(undefined), log }
    const listener = new MoveListener({ ...common, listen: { host: '127.0.0.1', port: 0 } })
    const bytes = statSync(this.#path('from')).size
    const { address } = await listener.expect({
      ...common,
      onStream: (_name, stream, transfer) =>
        void receiveFiles(transfer, stream, { disk: { path: this.#path('to'), bytes } }).catch(() => undefined),
    })
    const measured = await this.#measured('agents', async () => {
      const transfer = await DialledTransfer.open({ ...common, route: address!, signal: AbortSignal.timeout(600_000) })
      const file = { name: 'disk', path: this.#path('from'), bytes }
      await sendFiles(transfer, await transfer.open('files'), [file], () => undefined)
      transfer.end()
    })
    listener.close()
    return measured
  }

  /** MiB a second until the copy is on the disk, and CPU seconds for each GiB, of both ends. */
  async #measured(name: string, copy: () => Promise<unknown>): Promise<Measured> {
    rmSync(this.#path('to'), { force: true })
    const cpu = () => cpuMs(process.pid, { children: true }) + cpuMs(this.#sshd!.pid!, { children: true })
    const [began, before] = [performance.now(), cpu()]
    await copy()
    await run('sync', [this.#path('to')])
    const seconds = (performance.now() - began) / 1_000
    return { [`${name} rate`]: fileMiB / seconds, [`${name} cpu`]: ((cpu() - before) / 1_000) * (1_024 / fileMiB) }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#sshd?.kill('SIGTERM')
    rmSync(this.#folder, { recursive: true, force: true })
  }
}
