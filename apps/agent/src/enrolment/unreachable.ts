// Why a control plane was not reached, in words: what happened, then what to do. Knows no request.

export interface Unreachable {
  what: string
  remedy: string
  /** A retry does not pass it: somebody has to change something. */
  lasts: boolean
}

const wait = (what: string, remedy: string): Unreachable => ({ what, remedy, lasts: false })
const lasting = (what: string, remedy: string): Unreachable => ({ what, remedy, lasts: true })

const unknownAuthority = lasting(
  'its certificate is signed by an authority that this machine does not trust',
  'put the certificate of the authority into /usr/local/share/ca-certificates, in a file that ends in .crt, and run `update-ca-certificates`',
)
const wrongTime = () =>
  lasting(
    `its certificate is not valid at the time of this machine, ${new Date().toISOString()}`,
    'set the clock (`timedatectl`) if it is wrong, or renew the certificate',
  )
const otherName = lasting('its certificate is for another name', 'use a name that the certificate has')
const noRoute = wait('no answer', 'check the route, and the firewalls between this machine and it')
const noName = wait('its name has no address', 'check the name, and the resolver of this machine')
const noTls = lasting('it does not speak TLS', 'check the port, or use http:// with --allow-http')

const byCode: Readonly<Record<string, () => Unreachable>> = {
  ENOTFOUND: () => noName,
  EAI_AGAIN: () => noName,
  ECONNREFUSED: () => wait('nothing listens there', 'start the control plane, or correct the port'),
  ETIMEDOUT: () => noRoute,
  EHOSTUNREACH: () => noRoute,
  ENETUNREACH: () => noRoute,
  CERT_HAS_EXPIRED: wrongTime,
  CERT_NOT_YET_VALID: wrongTime,
  ERR_TLS_CERT_ALTNAME_INVALID: () => otherName,
  DEPTH_ZERO_SELF_SIGNED_CERT: () => unknownAuthority,
  SELF_SIGNED_CERT_IN_CHAIN: () => unknownAuthority,
  UNABLE_TO_GET_ISSUER_CERT: () => unknownAuthority,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: () => unknownAuthority,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: () => unknownAuthority,
  EPROTO: () => noTls,
  ERR_SSL_WRONG_VERSION_NUMBER: () => noTls,
  ERR_SSL_PACKET_LENGTH_TOO_LONG: () => noTls,
}

/** Explains an error of a connection or a request, or of what an error was made of. */
export function whyUnreachable(error: unknown): Unreachable {
  for (let at: unknown = error; at instanceof Error; at = at.cause) {
    const found = byCode[(at as NodeJS.ErrnoException).code ?? '']
    if (found) return found()
    if (at.name === 'TimeoutError') return noRoute
  }
  const message = error instanceof Error ? error.message : String(error)
  return wait(message.slice(0, 300), 'check that a control plane runs there, and the proxy before it')
}
