// Trusts what this machine trusts, not only what Node brings with it: a CA of one's own is in the machine's trust store.
import { readFileSync } from 'node:fs'
import tls from 'node:tls'

/** Where Debian, Red Hat, SUSE and Alpine keep it. */
const bundles = [
  '/etc/ssl/certs/ca-certificates.crt',
  '/etc/pki/tls/certs/ca-bundle.crt',
  '/etc/ssl/ca-bundle.pem',
  '/etc/ssl/cert.pem',
]

/** Node has it from 22.19 and 24.5 on. With an older one, only NODE_EXTRA_CA_CERTS adds a CA. */
export const canTrust = typeof tls.setDefaultCACertificates === 'function'

let isDone = false

/** Once, before the first connection over TLS. Most machines trust only what Node does, and then it takes no time. */
export function trustMachine(url: string, file = process.env.SSL_CERT_FILE): void {
  if (isDone || !canTrust || !url.startsWith('https:')) return
  isDone = true
  const known = new Set(tls.getCACertificates('default').map(bytesOf))
  const more = ofMachine(file).filter((each) => !known.has(bytesOf(each)))
  if (more.length > 0) tls.setDefaultCACertificates([...tls.getCACertificates('default'), ...more])
}

function ofMachine(file: string | undefined): string[] {
  if (process.platform === 'darwin' || process.platform === 'win32') return tls.getCACertificates('system')
  for (const path of file ? [file] : bundles) {
    try {
      return readFileSync(path, 'latin1').match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? []
    } catch {
      // Another distribution's path, or none that this user may read.
    }
  }
  return []
}

const bytesOf = (pem: string): string => pem.replaceAll(/-----[A-Z ]+-----|\s/g, '')
