// Guarantee: a screen's URLs lead to this service, and what they opened lasts no longer than the credential that asked.
import type { StreamClaim, StreamJson } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import { send } from './parts/api.ts'
import { audience, IdentityProvider } from './parts/identity-provider.ts'
import { RfbClient } from './parts/rfb-client.ts'

async function claim(stack: Stack, id: string, wish: StreamClaim, key: string): Promise<StreamJson> {
  const { status, text, json } = await stack.api('POST', `/v1/desktops/${id}/stream`, { body: { claim: wish }, key })
  if (status !== 200) throw new Error(`stream: ${status} ${text}`)
  return json as StreamJson
}

test('the URLs lead where the caller found the service, or where browsers do, and nowhere else', async () => {
  await using stack = await Stack.start()
  const pages = await stack.addReplica(undefined, { pageUrl: 'https://desks.example' })
  const { id } = await stack.desktop('awake')
  const at = async (url: string, host: string) => {
    const wish = { key: stack.org.key, body: { claim: 'view' }, headers: { host } }
    return (await send(`${url}/v1/desktops/${id}/stream`, 'POST', wish)).json
  }
  for (const host of ['dormouse.local:8080', '10.0.0.7', '[::1]:80']) {
    const { url, websocket_url } = await at(stack.url, host)
    expect(url.startsWith(`http://${host}/screens/${id}/view#`)).toBe(true)
    expect(websocket_url.startsWith(`ws://${host}/screens/${id}/view/`)).toBe(true)
  }
  await waitFor('the host to be linked there, too', async () => (await at(pages.url, 'x')).url)
  expect((await at(pages.url, 'x')).url).toMatch(/^https:\/\/desks\.example\/screens\//)
  expect((await at(pages.url, 'x')).websocket_url).toMatch(/^wss:\/\/desks\.example\/screens\//)
  for (const host of ['a/b', 'a@b', 'a b', 'a#']) {
    const { status, field } = await at(stack.url, host)
    expect([host, status, field]).toEqual([host, 400, 'Host'])
  }
})

test('a key that was revoked opens nothing any more: no ticket and no picture of a screen, though its link was never used', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const { principals } = stack.replica.parts
  const { id: key, api_key } = await principals.createKey(stack.org.id, 'leaving')
  const links = [await claim(stack, id, 'view', api_key), await claim(stack, id, 'control', api_key)]
  await principals.revokeKey(key)
  for (const { websocket_url } of links) {
    const page = RfbClient.dial(websocket_url, { page: true })
    expect(await page.closed).toMatchObject({ code: 4004 })
    expect([page.notes, page.unread]).toEqual([[], 0])
  }
})

test('an access token that expires ends its socket with 4004; one that is renewed in time goes on', async () => {
  await using provider = await IdentityProvider.start({})
  await using stack = await Stack.start({ controlPlane: { oidcIssuer: provider.issuer, oidcAudience: audience } })
  const { id } = await stack.desktop('awake')
  // A token is taken for 30 s longer than it says.
  const token = (sub: string, leftSecs: number) =>
    provider.forge({ org_id: stack.org.id, sub, exp: Math.floor(Date.now() / 1_000) - 30 + leftSecs })
  const second = await RfbClient.connect((await claim(stack, id, 'control', await token('goes on', 6))).websocket_url)
  const spare = await claim(stack, id, 'control', await token('goes on', 600))
  // Made last, so that the other one's time has run out, too, when this one's has.
  const ends = await token('ends', 6)
  const { websocket_url } = await claim(stack, id, 'view', ends)
  const unused = (await claim(stack, id, 'view', ends)).websocket_url
  const first = await RfbClient.connect(websocket_url)
  expect(await first.closed).toMatchObject({ code: 4004, reason: expect.stringContaining('expired') })
  // A guess is told what every guess is told, and nothing of the claim.
  const guess = `${unused.slice(0, -4)}AAAA`
  for (const [url, says] of [
    [unused, 'credential behind'],
    [guess, 'this link was used'],
  ] as const)
    expect((await RfbClient.dial(url).closed).reason).toContain(says)
  await second.frame()
  second.close()
  const again = await RfbClient.connect(spare.websocket_url)
  again.close()
})
