// The authorities that this machine trusts, and those of NODE_EXTRA_CA_CERTS. Node reads both at its start and never again, so
// they are looked at: an authority that is added or replaced counts from the next connection on.
import { X509Certificate } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import tls from 'node:tls'
import { reread } from './reread.ts'

const bundles = ['/etc/ssl/certs/ca-certificates.crt', '/etc/pki/tls/certs/ca-bundle.crt']

/** Begins to look at their files. */
export function watchMachineTrust({ SSL_CERT_FILE, NODE_EXTRA_CA_CERTS }: NodeJS.ProcessEnv): void {
  const files = [SSL_CERT_FILE || bundles.find(existsSync), NODE_EXTRA_CA_CERTS].filter((file) => file !== undefined)
  if (files.length > 0) reread({ name: 'authorities', files, initial: undefined, load: () => trust(files) })
}

function trust(files: readonly string[]): undefined {
  tls.setDefaultCACertificates([...tls.rootCertificates, ...files.flatMap(authoritiesIn)])
}

function authoritiesIn(file: string): string[] {
  const found = readFileSync(file, 'latin1').match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? []
  if (found.length === 0) throw new Error(`${file} has no certificate in PEM format`)
  // Throws if one is none.
  for (const each of found) new X509Certificate(each)
  return found
}
