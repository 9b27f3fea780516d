// Failures of TLS to the database, as sentences that name the setting. Knows no connection.

const unknownAuthority =
  /^(DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_(GET_ISSUER|VERIFY_LEAF)_\w+)$/
const outOfDate = /^(CERT_HAS_EXPIRED|CERT_NOT_YET_VALID)$/

/** What to correct; undefined if TLS is not the cause. */
export function tlsSentence({ code = '', message }: NodeJS.ErrnoException): string | undefined {
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID')
    return `the database's certificate does not name the host in DATABASE_URL: ${message}; use a host name that it names, or a certificate for this one`
  if (unknownAuthority.test(code))
    return `the database's certificate is not signed by the authority that DATABASE_URL names (${code}); set sslrootcert to the file of the authority that signed it`
  if (outOfDate.test(code))
    return `the database's certificate is not valid now (${code}); renew it, or correct the clock`
  if (message === 'The server does not support SSL connections')
    return 'the database offers no TLS, which sslmode in DATABASE_URL requires; set ssl = on in its postgresql.conf'
  return undefined
}
