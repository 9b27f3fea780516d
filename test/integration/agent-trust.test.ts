// Guarantee: an agent trusts what its machine trusts, and says what to do about a certificate that it does not accept.
import { once } from 'node:events'
import { createServer } from 'node:https'
import tls from 'node:tls'
import { listenOnLoopback } from '@dormouse/link/testing'
import { expect, test } from 'vitest'
import { lookAtControlPlane } from '../../apps/agent/src/enrolment/reach.ts'
import { whyUnreachable } from '../../apps/agent/src/enrolment/unreachable.ts'
import { Authority } from '../real/parts/authority.ts'

test('a certificate of a private authority is accepted where the machine trusts the authority', async () => {
  using authority = await Authority.create()
  const { certificate, key } = await authority.issue('IP:127.0.0.1')
  const server = createServer({ cert: certificate, key }, (_request, response) => response.end())
  const url = `https://127.0.0.1:${await listenOnLoopback(server)}`
  const look = (at: string) => lookAtControlPlane(at, undefined).catch((error: unknown) => whyUnreachable(error))
  const ours = tls.getCACertificates('default')
  try {
    expect(await look(url)).toMatchObject({
      what: expect.stringContaining('an authority that this machine does not trust'),
      remedy: expect.stringContaining('update-ca-certificates'),
      lasts: true,
    })
    tls.setDefaultCACertificates([...ours, authority.certificate])
    const reached = await look(url)
    expect(reached).toMatchObject({ clock: {}, noLink: {} })
    const days = ((reached as { certificateEnds: Date }).certificateEnds.getTime() - Date.now()) / 86_400_000
    expect(Math.ceil(days)).toBe(1)
    expect(await look(url.replace('127.0.0.1', 'localhost'))).toMatchObject({
      what: 'its certificate is for another name',
    })
  } finally {
    tls.setDefaultCACertificates(ours)
    server.close()
    server.closeAllConnections()
    await once(server, 'close')
  }
})
