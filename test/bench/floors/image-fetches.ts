// Fetches of one large image over loopback, from a web server in a process of its own: by an agent's fetcher, and by `curl`.
import { type ChildProcess, spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { appendFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ImageFetcher } from '@dormouse/agent/images/fetcher.ts'
import { ImageStore } from '@dormouse/agent/images/store.ts'
import type { ImageRef } from '@dormouse/contract'
import { createLog, noFailpoints } from '@dormouse/process'
import { endWithUs } from '../../../scripts/testbed/end-with-us.ts'
import { identify, run } from '../../../scripts/testbed/processes.ts'
import { freePort } from '../../free-port.ts'
import { waitFor } from '../../wait-for.ts'
import { cpuMs } from '../cpu.ts'
import type { Measured } from '../subject.ts'

const mib = 1024 * 1024
export const imageMiB = 384

export class ImageFetches implements AsyncDisposable {
  readonly #folder: string
  readonly #ref: ImageRef
  readonly #server: ChildProcess

  private constructor(folder: string, ref: ImageRef, server: ChildProcess) {
    this.#folder = folder
    this.#ref = ref
    this.#server = server
  }

  static async start(parent: string): Promise<ImageFetches> {
    const folder = mkdtempSync(join(parent, 'images-'))
    const port = await freePort()
    const source = `http://127.0.0.1:${port}/`
    const ref = { ...publish(join(folder, 'served')), source }
    const words = ['httpd', '-f', '-p', `127.0.0.1:${port}`, '-h', join(folder, 'served')]
    const server = spawn('busybox', words, { stdio: 'ignore' })
    endWithUs(identify(server.pid!)!, 'SIGTERM')
    const answers = () =>
      fetch(`${source}manifest.json`).then(
        ({ ok }) => ok,
        () => false,
      )
    await waitFor('the web server', answers)
    return new ImageFetches(folder, ref, server)
  }

  /** No digest, and nothing is synced. */
  curl(): Promise<Measured> {
    return this.#measured('curl', () => this.#curl())
  }

  /** What the agent promises: the file is right, and on the disk. */
  checked(): Promise<Measured> {
    return this.#measured('checked', async () => {
      await this.#curl()
      await run('sha256sum', [this.#to])
      await run('sync', [this.#to])
    })
  }

  agent(): Promise<Measured> {
    const store = new ImageStore({ given: undefined, fetched: this.#to })
    const log = createLog({ name: 'images', level: 'silent' })
    const fetcher = new ImageFetcher({ store, makeSpace: async () => false, failpoints: noFailpoints, log })
    return this.#measured('agent', () => fetcher.ensure(this.#ref, new AbortController().signal))
  }

  get #to(): string {
    return join(this.#folder, 'to')
  }

  #curl(): Promise<string> {
    return run('curl', ['-sS', '-o', this.#to, `${this.#ref.source}disk.qcow2`])
  }

  /** MiB a second, and CPU seconds of the client for each GiB. */
  async #measured(name: string, fetching: () => Promise<unknown>): Promise<Measured> {
    rmSync(this.#to, { recursive: true, force: true })
    // What the one before has left to be written is not paid by this one.
    await run('sync', [])
    const cpu = () => cpuMs(process.pid, { children: true })
    const [began, before] = [performance.now(), cpu()]
    await fetching()
    const seconds = (performance.now() - began) / 1_000
    return { [`${name} rate`]: imageMiB / seconds, [`${name} used`]: ((cpu() - before) / 1_000) * (1_024 / imageMiB) }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.kill('SIGTERM')
    rmSync(this.#folder, { recursive: true, force: true })
  }
}

/** An image in that folder whose disk has random bytes. */
function publish(folder: string): Omit<ImageRef, 'source'> {
  mkdirSync(folder)
  const file = (name: string, blocks: number, blockBytes: number) => {
    const hash = createHash('sha256')
    for (let at = 0; at < blocks; at++) {
      const block = randomBytes(blockBytes)
      hash.update(block)
      appendFileSync(join(folder, name), block)
    }
    return { file: name, size: blocks * blockBytes, sha256: hash.digest('hex') }
  }
  const manifest = {
    name: 'bench',
    version: '1',
    machine: 'pc',
    kernel: file('vmlinuz', 1, 1_000),
    initrd: file('initrd', 1, 1_000),
    disk: { ...file('disk.qcow2', imageMiB, mib), virtual_size_bytes: mib },
    cmdline: 'quiet',
  }
  const text = JSON.stringify(manifest)
  writeFileSync(join(folder, 'manifest.json'), text)
  const bytes = manifest.kernel.size + manifest.initrd.size + manifest.disk.size
  return { name: 'bench', version: '1', digest: createHash('sha256').update(text).digest('hex'), bytes }
}
