// Guarantee: an opening whose answer is lost on its way costs the page nothing, and gives nobody else anything.
import { newId, type StreamClaim, type StreamJson } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import { RfbClient } from './parts/rfb-client.ts'

async function claim(stack: Stack, id: string, wish: StreamClaim, more: object = {}): Promise<string> {
  const { json } = await stack.api('POST', `/v1/desktops/${id}/stream`, { body: { claim: wish, ...more } })
  return (json as StreamJson).websocket_url
}

const again = (url: string, key: string): string => url.replace(/[^/]+$/, key)

/** Opens as a page whose answer never arrives: it knows nothing but what it came with. */
async function openInVain(url: string): Promise<void> {
  const lost = RfbClient.dial(url, { page: 'deaf' })
  await waitFor('the answer that is lost', () => lost.notes[0])
  lost.socket.terminate()
}

test('a page comes back by what it came with, link or ticket, as often as the answer is lost, and holds its claim', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const url = await claim(stack, id, 'control')
  for (let i = 0; i < 2; i++) await openInVain(url)
  const page = await RfbClient.connect(url, { page: true })
  const { ticket } = await waitFor('a ticket', () => page.notes[0])
  page.socket.terminate()
  for (let i = 0; i < 2; i++) await openInVain(again(url, ticket))
  const back = await RfbClient.connect(again(url, ticket), { page: true })
  await back.frame()
  back.close()
})

test('once the page has said that it has its ticket, what it came with is spent', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const url = await claim(stack, id, 'view')
  const page = await RfbClient.connect(url, { page: true })
  await waitFor('the link to be spent', async () => {
    const [row] = await stack.database.rows<{ before: Buffer | null }>(
      'select previous_hash as before from stream_claims where ticket_hash is not null',
    )
    return row && row.before === null
  })
  expect((await RfbClient.dial(url, { page: true }).closed).code).toBe(4004)
  await page.frame()
  page.close()
})

test('what opens again ends the socket that it opened before: one holder, one screen', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const url = await claim(stack, id, 'control')
  const first = await RfbClient.connect(url, { page: 'deaf' })
  const second = await RfbClient.connect(url, { page: 'deaf' })
  expect((await first.closed).code).toBe(4001)
  await second.frame()
  second.close()
})

test('a program’s token is spent by its opening, and a takeover spends a page’s that waits', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const program = await claim(stack, id, 'view')
  const client = await RfbClient.connect(program)
  for (const page of [false, true]) expect((await RfbClient.dial(program, { page }).closed).code).toBe(4004)
  client.close()
  const url = await claim(stack, id, 'control')
  await openInVain(url)
  const { api_key } = await stack.replica.parts.principals.createKey(stack.org.id, `another ${newId()}`)
  const taken = await stack.api('POST', `/v1/desktops/${id}/stream`, {
    body: { claim: 'control', takeover: true },
    key: api_key,
  })
  expect(taken.status).toBe(200)
  expect((await RfbClient.dial(url, { page: true }).closed).code).toBe(4004)
})
