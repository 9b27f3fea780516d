// The files of TLS that DATABASE_URL names. They are read once here, and again when they change: `pg` would read them for each
// connection, and have none while one of them is missing or half written.
import { X509Certificate } from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'
import { type ConnectionOptions, createSecureContext } from 'node:tls'
import { reread, StartError } from '@dormouse/process'
import pg from 'pg'

export const tlsFileSettings = ['sslrootcert', 'sslcert', 'sslkey'] as const

interface TlsFiles {
  ca: string | undefined
  cert: string | undefined
  key: string | undefined
}

const known = new Map<string, ConnectionOptions>()

/** Options of TLS with what the files hold at each connection; undefined if DATABASE_URL names none. */
export function tlsFromFiles(databaseUrl: string): ConnectionOptions | undefined {
  const query = queryOf(databaseUrl)
  const files = tlsFileSettings.flatMap((name) => query.get(name) ?? [])
  if (files.length === 0) return undefined
  const before = known.get(databaseUrl)
  if (before) return before
  const load = () => readTlsFiles(databaseUrl)
  const initial = load()
  // The driver knows what the modes of `sslmode` mean.
  const { ssl } = new pg.Client({ connectionString: databaseUrl }) as unknown as { ssl: object | boolean }
  if (typeof ssl !== 'object') return undefined
  const read = reread({ name: 'database_tls', files, initial, load })
  const options = { ...ssl, ...read.current }
  for (const name of ['ca', 'cert', 'key'] as const)
    Object.defineProperty(options, name, { enumerable: true, configurable: true, get: () => read.current[name] })
  known.set(databaseUrl, options)
  return options
}

const queryOf = (databaseUrl: string) => new URLSearchParams(databaseUrl.split('?', 2)[1] ?? '')

/** Checks them before any connection, because an error of TLS names no file. */
export function readTlsFiles(databaseUrl: string): TlsFiles {
  const query = queryOf(databaseUrl)
  const read = (name: string, pem: RegExp, what: string) => {
    const file = query.get(name)
    if (!file) return undefined
    const contents = contentsOf(`${name} in DATABASE_URL is ${file}`, file)
    if (!pem.test(contents) || (pem === certificate && !isCertificate(contents)))
      throw new StartError(
        `${name} in DATABASE_URL is ${file}, but that file has no ${what} in PEM format; name the PEM file`,
      )
    return contents
  }
  const ca = read('sslrootcert', certificate, 'certificate')
  const [cert, key] = [read('sslcert', certificate, 'certificate'), read('sslkey', privateKey, 'private key')]
  try {
    createSecureContext({ ca, cert, key })
    return { ca, cert, key }
  } catch (error) {
    const { message } = error as Error
    throw new StartError(
      `sslcert and sslkey in DATABASE_URL cannot be used: ${message}; name a certificate and its own key, without a passphrase`,
    )
  }
}

const certificate = /^-----BEGIN [A-Z0-9 ]*CERTIFICATE-----/m
const privateKey = /^-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----/m

function contentsOf(what: string, file: string): string {
  try {
    if (statSync(file).isFile()) return readFileSync(file, 'utf8')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ENOTDIR')
      throw new StartError(`${what}, but there is no such file; create it, or correct the path`)
    throw new StartError(`${what}, but it cannot be read (${code}); let the user that this program runs as read it`)
  }
  throw new StartError(`${what}, but that is not a file; name the PEM file`)
}

function isCertificate(pem: string): boolean {
  try {
    return new X509Certificate(pem).raw.length > 0
  } catch {
    return false
  }
}
