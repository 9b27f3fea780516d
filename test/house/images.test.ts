// Guarantee: a registered image is fetched by the host that needs it, verified, and a desktop keeps the version that it was made
// from. Images that nobody has registered work as before.
import { ImageServer } from '@dormouse/agent/testing/image-server.ts'
import { expect, test } from 'vitest'
import { House } from '../house.ts'
import { waitFor } from '../wait-for.ts'

async function operatorOf(house: House) {
  const key = await house.replica.parts.principals.createOperatorKey('ops')
  const ask = (method: string, path: string, body?: object) =>
    house.api(method, `/admin/v1/images${path}`, { key, ...(method === 'POST' && { body: body ?? {} }) })
  const add = async (server: ImageServer, more: object = {}) => {
    const { name, version } = server.ref()
    return ask('POST', '', { name, version, from: server.url, ...more })
  }
  return { ask, add }
}

test('a first wake fetches the image that the name means, and shows how far it is', async () => {
  await using server = await ImageServer.start()
  await using house = await House.start()
  const { ask, add } = await operatorOf(house)
  const added = await add(server)
  expect([added.status, added.json]).toEqual([
    201,
    expect.objectContaining({ digest: server.ref().digest, in_use: false }),
  ])
  expect(added.json.hosts).toMatchObject([{ host_name: house.host.name, state: 'absent' }])
  expect((await ask('POST', '/mini@1/use')).json.in_use).toBe(true)

  const halfSent = server.sendHalf('disk.qcow2')
  const { id } = await house.desktop('created', { image_version: 'mini' })
  const { id: operation } = await house.begin(id, 'wake')
  const progress = await waitFor('the fetch to be shown', async () => {
    const { progress } = await house.operation(operation)
    return progress?.phase === 'fetching_image' && progress
  })
  expect(progress.total_bytes).toBe(server.ref().bytes)
  const sendRest = await halfSent
  sendRest()
  expect(await house.settled(operation)).toMatchObject({ state: 'succeeded', result: { resumed_from: 'image' } })
  expect(await house.see(id)).toMatchObject({ image_version: 'mini', resolved_image_version: 'mini@1' })
  await waitFor('the host to be listed', async () => {
    const { json } = await ask('GET', '/mini@1')
    return json.hosts[0].state === 'present'
  })
})

test('a desktop keeps its version when the name means another one; a retired version makes no new desktop', async () => {
  await using server = await ImageServer.start(1_000)
  await using house = await House.start()
  const { ask, add } = await operatorOf(house)
  await add(server)
  await ask('POST', '/mini@1/use')
  const old = await house.desktop('awake', { image_version: 'mini' })
  server.put('mini', '2', 1_000)
  await add(server)
  await ask('POST', '/mini@2/use')
  const young = await house.desktop('awake', { image_version: 'mini' })
  expect([young.image_version, young.resolved_image_version]).toEqual(['mini', 'mini@2'])
  expect((await ask('POST', '/mini@2/retire')).json).toMatchObject({ code: 'conflict' })
  expect((await ask('POST', '/mini@1/retire')).json.retired_at).toEqual(expect.any(String))

  await house.ask(old.id, 'hibernate')
  expect((await house.ask(old.id, 'wake')).result?.resumed_from).toBe('memory')
  expect((await house.see(old.id)).resolved_image_version).toBe('mini@1')
  const { id } = await house.desktop('created', { image_version: 'mini@1' })
  const refused = await house.settled((await house.begin(id, 'wake')).id)
  expect(refused).toMatchObject({ state: 'failed', error_code: 'image_unavailable' })
  expect((await house.causes(id))[0]).toContain('mini@1 is retired')
})

test('what nobody has registered is looked for in the hosts’ own folders', async () => {
  await using house = await House.start()
  const { resolved_image_version } = await house.desktop('awake', { image_version: 'mini' })
  expect(resolved_image_version).toBeNull()
  const { id } = await house.desktop('created', { image_version: 'nowhere' })
  expect(await house.settled((await house.begin(id, 'wake')).id)).toMatchObject({ error_code: 'image_unavailable' })
})

test('hosts fetch ahead of need where that is requested; one that cannot says why', async () => {
  await using server = await ImageServer.start(1_000)
  await using house = await House.start({ hosts: 2 })
  const { ask, add } = await operatorOf(house)
  server.instead = (file) =>
    file === 'disk.qcow2' ? (_request, response) => void response.writeHead(404).end() : undefined
  await add(server, { prefetch: true })
  const states = async () => (await ask('GET', '')).json.images[0].hosts.map(({ state }: { state: string }) => state)
  const failed = await waitFor('both to fail', async () => {
    const { hosts } = (await ask('GET', '/mini@1')).json
    return hosts.every(({ state }: { state: string }) => state === 'failed') && hosts
  })
  expect(failed[0].error).toContain('disk.qcow2 answered 404')
  server.instead = undefined
  await add(server, { prefetch: true })
  await waitFor('both to have it', async () => (await states()).every((state: string) => state === 'present'))
})

test('an image is registered with its own name and content, or not at all', async () => {
  await using server = await ImageServer.start(1_000)
  await using house = await House.start()
  const { ask, add } = await operatorOf(house)
  const wrong: [field: string, body: object][] = [
    ['name', { name: '../etc' }],
    ['name', { name: 'a/b' }],
    ['name', { name: 'a..b' }],
    ['name', { name: 'mini@1' }],
    ['name', { name: 'other' }],
    ['version', { version: '..' }],
    ['version', { version: '7' }],
    ['from', { from: 'file:///etc' }],
    ['from', { from: 'images' }],
    ['from', { from: '/srv/../etc' }],
    ['from', { from: 'https://user:secret@images/' }],
    ['from', { from: `${server.url}nowhere` }],
    ['digest', { digest: 'a'.repeat(64) }],
    ['digest', { digest: 'short' }],
  ]
  for (const [field, body] of wrong) {
    const { status, json } = await add(server, body)
    expect([body, status, json.field]).toEqual([body, 400, field])
  }
  for (const path of ['/..@1/use', '/mini@..%2F1/use', '/mini/use']) expect((await ask('POST', path)).status).toBe(400)
  expect((await ask('POST', '/mini@1/use')).status).toBe(404)
  expect((await add(server)).status).toBe(201)
  expect((await add(server)).status).toBe(201)
  server.put('mini', '1', 2_000)
  expect((await add(server)).json).toMatchObject({ status: 409, code: 'conflict' })
})
