// A certificate authority for tests, made by openssl.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { run } from '../../../scripts/testbed/processes.ts'

/** Certificate and key, PEM. */
export interface Identity {
  certificate: string
  key: string
}

export class Authority {
  readonly #folder: string
  /** Its certificate's file. */
  readonly file: string

  private constructor(folder: string) {
    this.#folder = folder
    this.file = join(folder, 'ca.pem')
  }

  static async create(): Promise<Authority> {
    const authority = new Authority(mkdtempSync(join(tmpdir(), 'dormouse-authority-')))
    const subject = ['-subj', '/CN=authority of a test', '-days', '1']
    await authority.#openssl('req', '-x509', ...newKey('ca.key'), ...subject, '-out', 'ca.pem')
    return authority
  }

  get certificate(): string {
    return readFileSync(this.file, 'utf8')
  }

  /** A certificate for these names, such as `DNS:localhost` or `IP:127.0.0.1`. */
  issue(...names: string[]): Promise<Identity> {
    return this.#sign(names, 1)
  }

  /** One that has ended already. */
  issueEnded(...names: string[]): Promise<Identity> {
    return this.#sign(names, -1)
  }

  async #sign(names: string[], days: number): Promise<Identity> {
    writeFileSync(join(this.#folder, 'names'), `subjectAltName=${names.join(',')}\n`)
    await this.#openssl('req', ...newKey('key.pem'), '-subj', '/CN=test', '-out', 'request.pem')
    const signing = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-days', String(days), '-extfile', 'names']
    await this.#openssl('x509', '-req', '-in', 'request.pem', ...signing, '-out', 'certificate.pem')
    const read = (name: string) => readFileSync(join(this.#folder, name), 'utf8')
    return { certificate: read('certificate.pem'), key: read('key.pem') }
  }

  async #openssl(...args: string[]): Promise<void> {
    await run('openssl', args, { cwd: this.#folder })
  }

  [Symbol.dispose](): void {
    rmSync(this.#folder, { recursive: true, force: true })
  }
}

const newKey = (file: string) => ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', file]
