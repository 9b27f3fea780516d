// Guarantee: whether a machine reaches the control plane is checked with what an agent there trusts, not with what we trust here.
import { once } from 'node:events'
import { createServer } from 'node:https'
import { connect } from 'node:net'
import tls from 'node:tls'
import { listenOnLoopback } from '@dormouse/link/testing'
import { expect, test } from 'vitest'
import { tryReach } from '../../apps/cli/src/install/reach.ts'
import { Authority } from '../real/parts/authority.ts'

test('a certificate of a private authority is refused unless that machine trusts the authority, whatever we trust here', async () => {
  using authority = await Authority.create()
  const { certificate, key } = await authority.issue('IP:127.0.0.1')
  const server = createServer({ cert: certificate, key }).on('upgrade', (_request, socket) =>
    socket.end('HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n'),
  )
  const port = await listenOnLoopback(server)
  const session = { forward: async (host: string, to: number) => connect(to, host) }
  const check = (trust: string) => tryReach(session, `https://127.0.0.1:${port}`, { allowHttp: false, trust })
  const ours = tls.getCACertificates('default')
  tls.setDefaultCACertificates([...ours, authority.certificate])
  try {
    expect(await check('')).toMatchObject({
      result: 'failed',
      found: expect.stringContaining('TLS fails'),
      next: 'put the certificate of its authority on that host, in /etc/dormouse/control-plane-ca.pem',
    })
    tls.setDefaultCACertificates(ours)
    expect(await check(authority.certificate)).toMatchObject({ result: 'ok', found: 'TCP, TLS and WebSocket work' })
  } finally {
    tls.setDefaultCACertificates(ours)
    server.close()
    server.closeAllConnections()
    await once(server, 'close')
  }
})
