// Guarantee: a registered image is fetched by the host that needs it, verified, and a desktop keeps the version that it was made
// from, even if it moves. Images that nobody has registered work as before.
import { ImageServer } from '@dormouse/agent/testing/image-server.ts'
import { newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'

async function operatorOf(stack: Stack) {
  const key = await stack.replica.parts.principals.createOperatorKey('ops')
  const admin = (method: string, path: string, body: object = {}) =>
    stack.api(method, `/admin/v1/${path}`, { key, ...(method === 'POST' && { body }) })
  const ask = (method: string, path: string, body?: object) => admin(method, `images${path}`, body)
  const add = async (server: ImageServer, more: object = {}) => {
    const { name, version } = server.ref()
    return ask('POST', '', { name, version, from: server.url, ...more })
  }
  return { admin, ask, add }
}

test('a first wake fetches the image that the name means, and shows how far it is and what its host makes of it', async () => {
  await using server = await ImageServer.start()
  await using stack = await Stack.start({ agent: { templatesMiB: 10_000 } })
  const { ask, add } = await operatorOf(stack)
  const added = await add(server)
  expect([added.status, added.json]).toEqual([
    201,
    expect.objectContaining({ digest: server.ref().digest, in_use: false }),
  ])
  expect(added.json.hosts).toMatchObject([{ host_name: stack.host.name, state: 'absent', templates: 0 }])
  expect((await ask('POST', '/mini@1/use')).json.in_use).toBe(true)

  const halfSent = server.sendHalf('disk.qcow2')
  const { id } = await stack.desktop('created', { image_version: 'mini' })
  const { id: operation } = await stack.begin(id, 'wake')
  const progress = await waitFor('the fetch to be shown', async () => {
    const { progress } = await stack.operation(operation)
    return progress?.phase === 'fetching_image' && progress
  })
  expect(progress.total_bytes).toBe(server.ref().bytes)
  const sendRest = await halfSent
  sendRest()
  expect(await stack.settled(operation)).toMatchObject({ state: 'succeeded', result: { resumed_from: 'image' } })
  expect(await stack.see(id)).toMatchObject({ image_version: 'mini', resolved_image_version: 'mini@1' })
  await waitFor('the host to be listed', async () => {
    const { json } = await ask('GET', '/mini@1')
    return json.hosts[0].state === 'present' && json.hosts[0].templates === 1
  })
})

test('a desktop keeps its version when the name means another one; a retired version makes no new desktop', async () => {
  await using server = await ImageServer.start(1_000)
  await using stack = await Stack.start()
  const { ask, add } = await operatorOf(stack)
  await add(server)
  await ask('POST', '/mini@1/use')
  const old = await stack.desktop('awake', { image_version: 'mini' })
  server.put('mini', '2', 1_000)
  await add(server)
  await ask('POST', '/mini@2/use')
  const young = await stack.desktop('awake', { image_version: 'mini' })
  expect([young.image_version, young.resolved_image_version]).toEqual(['mini', 'mini@2'])
  expect((await ask('POST', '/mini@2/retire')).json).toMatchObject({ code: 'conflict' })
  const { id } = await stack.desktop('created', { image_version: 'mini@1' })
  expect((await ask('POST', '/mini@1/retire')).json.retired_at).toEqual(expect.any(String))

  await stack.ask(old.id, 'hibernate')
  expect((await stack.ask(old.id, 'wake')).result?.resumed_from).toBe('memory')
  expect((await stack.see(old.id)).resolved_image_version).toBe('mini@1')
  const refused = await stack.settled((await stack.begin(id, 'wake')).id)
  expect(refused).toMatchObject({ state: 'failed', error_code: 'image_unavailable' })
  expect((await stack.causes(id))[0]).toContain('mini@1 is retired')
})

test('what nobody has registered is looked for in the hosts’ own folders', async () => {
  await using stack = await Stack.start({ controlPlane: { defaultImage: 'nowhere' } })
  const { resolved_image_version } = await stack.desktop('awake', { image_version: 'mini' })
  expect(resolved_image_version).toBeNull()
  const { id } = await stack.desktop()
  expect(await stack.settled((await stack.begin(id, 'wake')).id)).toMatchObject({ error_code: 'image_unavailable' })
})

test('customers see with what a desktop can be created, and anything else is 400 with the names that are like it', async () => {
  await using server = await ImageServer.start(1_000)
  await using stack = await Stack.start()
  const { ask, add } = await operatorOf(stack)
  await add(server)
  const offered = async () => (await stack.api('GET', '/v1/images')).json.images
  const mini = { image_version: 'mini', resolved_image_version: null, is_default: true }
  const version = { image_version: 'mini@1', resolved_image_version: 'mini@1', is_default: false }
  expect(await offered()).toEqual([mini, version])
  await ask('POST', '/mini@1/use')
  expect(await offered()).toEqual([{ ...mini, resolved_image_version: 'mini@1' }, version])

  const create = (body: object) => stack.api('POST', '/v1/desktops', { body: { tier: 'small', ...body } })
  for (const image of ['mini', 'mini@1', null]) {
    expect((await create({ image_version: image })).json).toMatchObject({ image_version: image ?? 'mini' })
    expect((await create({ image })).json).toMatchObject({ image_version: image ?? 'mini' })
  }
  expect((await create({ image: 'mini', image_version: 'mini' })).status).toBe(201)
  expect((await create({ image: 'mini', image_version: 'mini@1' })).json).toMatchObject({ status: 400, field: 'image' })
  const known = 'known images: mini, mini@1'
  for (const [image, why] of [
    ['mimi', `there is no image "mimi"; did you mean "mini"?; ${known}`],
    ['windows', `there is no image "windows"; ${known}`],
    ['mini@2', `there is no image "mini@2"; did you mean`],
    ['mini@', `there is no image "mini@"; did you mean`],
    ['@1', 'there is no image "@1"'],
    ['Mini', 'there is no image "Mini"; did you mean "mini"'],
  ] as const)
    for (const field of ['image', 'image_version']) {
      const { json } = await create({ [field]: image })
      expect(json).toMatchObject({ status: 400, code: 'invalid_request', field, detail: expect.stringContaining(why) })
    }
})

test('an image that goes is offered no more; a create with a key that made a desktop of it before gets that desktop', async () => {
  await using server = await ImageServer.start(1_000)
  await using stack = await Stack.start()
  const { ask, add } = await operatorOf(stack)
  await add(server)
  server.put('mini', '2', 1_000)
  await add(server)
  await ask('POST', '/mini@2/use')
  const keyed = (image_version: string, key: string) =>
    stack.api('POST', '/v1/desktops', { body: { tier: 'small', image_version }, headers: { 'idempotency-key': key } })
  const made = await keyed('mini@1', 'a')
  await ask('POST', '/mini@1/retire')
  const again = await keyed('mini@1', 'a')
  expect([again.status, again.json.id, again.headers['idempotency-replayed']]).toEqual([200, made.json.id, 'true'])
  const refused = await keyed('mini@1', 'b')
  expect(refused.json).toMatchObject({ status: 400, detail: expect.stringContaining('"mini@1" is retired; ') })
  const { images } = (await stack.api('GET', '/v1/images')).json
  expect(images.map(({ image_version }: { image_version: string }) => image_version)).toEqual(['mini', 'mini@2'])
})

test('an image that one host has is offered until that host is removed', async () => {
  await using stack = await Stack.start({ controlPlane: { defaultImage: 'none' } })
  const { admin } = await operatorOf(stack)
  const create = () => stack.api('POST', '/v1/desktops', { body: { tier: 'small', image_version: 'mini' } })
  expect((await create()).status).toBe(201)
  await stack.host.kill()
  expect((await create()).status).toBe(201)
  const removed = await admin('POST', `hosts/${stack.host.name}/removal`, { yes_lose: 0 })
  expect(removed.status).toBe(200)
  expect((await create()).json).toMatchObject({ status: 400, field: 'image_version' })
})

test('tiers have the sizes that are configured', async () => {
  const size = { vcpus: 3, memoryMiB: 700, diskGiB: 11 }
  await using stack = await Stack.start({ hosts: 0, controlPlane: { tierSmall: size } })
  const { tiers } = (await stack.api('GET', '/v1/tiers')).json
  expect(tiers[0]).toMatchObject({ tier: 'small', vcpus: 3, memory_mib: 700, disk_gib: 11 })
  expect(tiers.map(({ tier }: { tier: string }) => tier)).toEqual(['small', 'default', 'large'])
})

test('hosts fetch ahead of need where that is requested; one that cannot says why', async () => {
  await using server = await ImageServer.start(1_000)
  await using stack = await Stack.start({ hosts: 2 })
  const { ask, add } = await operatorOf(stack)
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

test('hosts that fetch ahead of need make a template too, unless they take no desktops; the first desktop begins with it', async () => {
  await using server = await ImageServer.start(1_000)
  await using stack = await Stack.start({ hosts: 2, agent: { templatesMiB: 10_000 } })
  const { admin, ask, add } = await operatorOf(stack)
  const { images } = stack.replica.parts
  const [first, second] = stack.hosts
  await admin('POST', `hosts/${second!.id}/cordon`)
  await add(server, { prefetch: true })
  const preparedOn = async (name: string) => {
    await images.prefetch()
    const { hosts } = (await ask('GET', '/mini@1')).json
    return hosts.find(({ host_name }: { host_name: string }) => host_name === name)
  }
  await waitFor('the first to have a template', async () => (await preparedOn(first!.name)).templates === 1)
  await waitFor('the second to have the image', async () => (await preparedOn(second!.name)).state === 'present')
  expect((await preparedOn(second!.name)).templates).toBe(0)
  const listed = (await stack.replica.parts.hosts.list()).find(({ id }) => id === first!.id)
  expect(listed?.templates).toMatchObject([{ image: 'mini@1', memory_mib: 2048, vcpus: 2 }])
  const { id } = await stack.desktop('created', { tier: 'default', image_version: 'mini@1' })
  expect((await stack.ask(id, 'wake')).result).toMatchObject({ resumed_from: 'image', path: 'template' })
  expect(second!.driver.faults.counts.bootTemplate).toBeUndefined()
  await admin('POST', `hosts/${second!.id}/uncordon`)
  await waitFor('the second to have a template', async () => (await preparedOn(second!.name)).templates === 1)
})

test('an image is registered with its own name and content, or not at all', async () => {
  await using server = await ImageServer.start(1_000)
  await using stack = await Stack.start()
  const { ask, add } = await operatorOf(stack)
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

/** A desktop that is awake on the first host, of an image that the second host lacks. */
async function aboutToMove(stack: Stack, server: ImageServer) {
  const { add, admin } = await operatorOf(stack)
  await add(server)
  const { id, host_id: from } = await stack.desktop('awake', { image_version: 'mini@1' })
  await stack.remember(id, 'kept')
  const { id: to } = await stack.addHost()
  const { moves } = stack.replica.parts
  const begin = async () => (await moves.begin(id, { to: null, requestedBy: 'operator', requestId: newId() })).id
  return { id, from, to, begin, admin }
}

const letIn = { hosts: 1, agent: { moveAddress: { host: '127.0.0.1', port: 0 } } }

test('a desktop moves to a host that fetches its image first; meanwhile its guest goes on', async () => {
  await using server = await ImageServer.start()
  await using stack = await Stack.start(letIn)
  const { id, from, to, begin, admin } = await aboutToMove(stack, server)
  const plan = await admin('POST', `hosts/${from}/drain`, { dry_run: true })
  expect(plan.json.desktops).toMatchObject([{ desktop_id: id, action: 'live_move' }])
  const halfSent = server.sendHalf('disk.qcow2')
  const move = await begin()
  const sendRest = await halfSent
  const isShown = async () => (await stack.operation(move)).progress?.phase === 'fetching_image'
  await waitFor('the fetch to be shown', isShown)
  expect(await stack.recall(id)).toEqual({ memory: 'kept', disk: 'kept' })
  sendRest()
  expect(await stack.settled(move)).toMatchObject({ state: 'succeeded', result: { host_id: to } })
  expect(await stack.recall(id)).toEqual({ memory: 'kept', disk: 'kept' })
  expect((await stack.see(id)).resolved_image_version).toBe('mini@1')
})

test('while the other host cannot fetch its image, a desktop stays, and wakes in place; then it wakes there', async () => {
  await using server = await ImageServer.start(1_000)
  await using stack = await Stack.start(letIn)
  const { id, from, to, begin, admin } = await aboutToMove(stack, server)
  server.instead = (file) =>
    file === 'disk.qcow2' ? (_request, response) => void response.writeHead(404).end() : undefined
  const failed = await stack.settled(await begin())
  expect(failed).toMatchObject({ state: 'failed', error_code: 'no_host' })
  expect((await stack.causes(id))[0]).toContain('disk.qcow2 answered 404')
  expect(await stack.see(id)).toMatchObject({ state: 'awake', host_id: from })
  expect(await stack.recall(id)).toEqual({ memory: 'kept', disk: 'kept' })
  await stack.ask(id, 'hibernate')
  await admin('POST', `hosts/${from}/cordon`)
  expect((await stack.ask(id, 'wake')).result).toMatchObject({ host_id: from, resumed_from: 'memory' })
  await stack.ask(id, 'hibernate')
  server.instead = undefined
  expect((await stack.ask(id, 'wake')).result).toMatchObject({ host_id: to, resumed_from: 'memory' })
  expect(await stack.recall(id)).toEqual({ memory: 'kept', disk: 'kept' })
})
