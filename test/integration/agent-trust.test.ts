// Guarantee: an agent trusts what its machine trusts. It says what to do about a certificate that it does not accept, as the check of a
// control plane does.
import { once } from 'node:events'
import { mkdtempDisposableSync } from 'node:fs'
import { createServer } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import tls from 'node:tls'
import { checksOf } from '@dormouse/control-plane/check.ts'
import { configSchema as controlPlaneSettings } from '@dormouse/control-plane/config.ts'
import { listenOnLoopback } from '@dormouse/link/testing'
import { readConfig } from '@dormouse/process'
import { expect, test } from 'vitest'
import { configSchema } from '../../apps/agent/src/config.ts'
import { enrolHost } from '../../apps/agent/src/enrol-command.ts'
import { lookAtControlPlane } from '../../apps/agent/src/enrolment/reach.ts'
import { whyUnreachable } from '../../apps/agent/src/enrolment/unreachable.ts'
import { Authority } from '../real/parts/authority.ts'

/** Why this machine was not enrolled there. */
async function enrol(url: string): Promise<string> {
  using folder = mkdtempDisposableSync(join(tmpdir(), 'dormouse-trust-'))
  const config = readConfig(configSchema, { DORMOUSE_AGENT_STATE_DIR: folder.path })
  const given = { config, controlPlanes: [url], name: 'host', allowHttp: false, say: () => undefined }
  // It would wait that long for what may pass.
  const enrolled = enrolHost({ ...given, readInvitation: async () => 'good', waitMs: 600_000 })
  return enrolled.then(
    () => expect.unreachable(),
    (error: Error) => error.message,
  )
}

/** What a control plane finds that has this URL. */
async function publicUrl(url: string) {
  const env = { DATABASE_URL: 'postgres://127.0.0.1:1/none', DORMOUSE_PUBLIC_URL: url }
  const checks = checksOf(() => readConfig(controlPlaneSettings, env))
  return checks.find(({ name }) => name === 'public URL')!.look()
}

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
    expect(await enrol(url)).toMatch(/an authority that this machine does not trust; .*update-ca-certificates/)
    expect(await publicUrl(url)).toMatchObject({
      result: 'warning',
      remedy: expect.stringContaining('that this machine trusts its authority'),
    })
    tls.setDefaultCACertificates([...ours, authority.certificate])
    const reached = await look(url)
    expect(reached).toMatchObject({ clock: {}, noLink: {} })
    const days = ((reached as { certificateEnds: Date }).certificateEnds.getTime() - Date.now()) / 86_400_000
    expect(Math.ceil(days)).toBe(1)
    expect(await look(url.replace('127.0.0.1', 'localhost'))).toMatchObject({
      what: 'its certificate is for another name',
    })
    expect(await enrol(url.replace('127.0.0.1', 'localhost'))).toContain('is for another name; use a name that')
    expect(await publicUrl(url)).toMatchObject({ result: 'warning', detail: expect.stringMatching(/ends in 0 days$/) })
    const { certificate: cert, key: itsKey } = await authority.issueEnded('IP:127.0.0.1')
    server.setSecureContext({ cert, key: itsKey })
    expect(await look(url)).toMatchObject({ what: expect.stringContaining('is not valid at the time of this machine') })
    expect(await enrol(url)).toMatch(/is not valid at .*; set the clock .* or renew the certificate/)
    expect(await publicUrl(url)).toMatchObject({
      detail: `${url} does not answer by TLS: CERT_HAS_EXPIRED`,
      remedy: expect.stringContaining('its certificate'),
    })
  } finally {
    tls.setDefaultCACertificates(ours)
    server.close()
    server.closeAllConnections()
    await once(server, 'close')
  }
})
