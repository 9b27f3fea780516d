// Guarantee: a desktop that sleeps is copied off its host by itself, and shows what would come back; with real restic.
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { OperationJson } from '@dormouse/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'

let stack: Stack
let folder: string
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'dormouse-vault-'))
  const vaultDir = join(folder, 'vaults')
  mkdirSync(vaultDir)
  writeFileSync(join(vaultDir, 'main.env'), `RESTIC_REPOSITORY=${join(folder, 'repo')}\nRESTIC_PASSWORD=secret\n`)
  stack = await Stack.start({ agent: { vaultDir }, controlPlane: { vault: 'main', copyAfterMs: 1 } })
})
afterAll(async () => {
  await stack[Symbol.asyncDispose]()
  rmSync(folder, { recursive: true, force: true })
})

const get = async (path: string) => (await stack.api('GET', path)).json
const snapshots = () => readdirSync(join(folder, 'repo', 'snapshots')).length
const copiesOf = async (id: string) => (await get(`/v1/desktops/${id}/copies`)).copies as { id: string; kind: string }[]
const copied = (id: string, count: number) =>
  waitFor('a copy', async () => {
    const copies = await copiesOf(id)
    return copies.length === count && copies
  })

test('each sleep is copied, and the desktop shows what would come back', async () => {
  const { id } = await stack.desktop()
  expect(await get(`/v1/desktops/${id}`)).toMatchObject({ protection: 'none', protected_at: null })
  await stack.ask(id, 'wake')
  await stack.ask(id, 'hibernate')
  const [first] = await copied(id, 1)
  expect(first).toMatchObject({ kind: 'memory', vault: 'main' })
  expect(await get(`/v1/desktops/${id}`)).toMatchObject({ protection: 'memory', protected_at: expect.any(String) })
  await stack.ask(id, 'wake')
  expect(await get(`/v1/desktops/${id}`)).toMatchObject({ protection: 'disk' })
  await stack.ask(id, 'hibernate')
  const both = await copied(id, 2)
  expect(both[1]).toEqual(first)
  const { events } = await get('/v1/events?limit=10&type=desktop.copied')
  expect(events.map(({ data }: { data: { copy_id: string } }) => data.copy_id)).toEqual(
    expect.arrayContaining(both.map(({ id }) => id)),
  )
  const other = await stack.newOrg('other')
  expect((await stack.api('GET', `/v1/desktops/${id}/copies`, { key: other.key })).status).toBe(404)
})

test('a policy keeps its desktops out of vaults, and fewer copies of others', async () => {
  const put = (name: string, body: object) => stack.api('PUT', `/v1/copy-policies/${name}`, { body })
  expect((await put('none', { select: 'secret', when: 'off' })).json).toMatchObject({ name: 'none', select: 'secret' })
  expect((await put('one', { select: 'few', keep: { last: 1, daily: 0, weekly: 0 } })).status).toBe(200)
  expect((await put('Bad', {})).json).toMatchObject({ field: 'name' })
  expect((await put('x', { select: '=' })).json).toMatchObject({ field: 'select' })
  expect((await get('/v1/copy-policies')).policies.map(({ name }: { name: string }) => name)).toEqual(['none', 'one'])
  const create = async (labels: object) =>
    (await stack.api('POST', '/v1/desktops', { body: { tier: 'small', labels } })).json.id as string
  const [secret, few] = [await create({ secret: '' }), await create({ few: '' })]
  for (const id of [secret, few, few]) {
    await stack.ask(id, 'wake')
    await stack.ask(id, 'hibernate')
    if (id === few) await waitFor('protection', async () => (await get(`/v1/desktops/${id}`)).protection === 'memory')
  }
  expect(await copiesOf(few)).toHaveLength(1)
  expect(await copiesOf(secret)).toEqual([])
  expect((await stack.api('DELETE', '/v1/copy-policies/none')).status).toBe(204)
  expect((await stack.api('DELETE', '/v1/copy-policies/none')).status).toBe(404)
  await copied(secret, 1)
})

test('the copies of a destroyed desktop leave the vault', async () => {
  const { id } = await stack.desktop()
  await stack.ask(id, 'wake')
  await stack.ask(id, 'hibernate')
  await copied(id, 1)
  const before = snapshots()
  await stack.ask(id, 'destroy')
  await waitFor('fewer snapshots', () => snapshots() < before)
})

const restore = async (id: string, copy: string) =>
  (await stack.api('POST', `/v1/desktops/${id}/copies/${copy}/restore?wait=true`)).json as OperationJson
const run = async (id: string, command: string) =>
  (await stack.api('POST', `/v1/desktops/${id}/exec`, { body: { command } })).json.stdout as string

test('a restore brings back the disk of then; its memory only if it was not woken since', async () => {
  const { id } = await stack.desktop('awake')
  await run(id, 'echo one > ~/kept; sync')
  const boot = await run(id, 'cat /proc/sys/kernel/random/boot_id')
  await stack.ask(id, 'hibernate')
  const [first] = await copied(id, 1)
  const before = await stack.see(id)
  expect(await restore(id, first!.id)).toMatchObject({
    kind: 'restore',
    state: 'succeeded',
    result: { desktop_state: 'hibernated', restored_from: { copy_id: first!.id } },
  })
  const after = await stack.see(id)
  expect([after.state, after.generation]).toEqual(['hibernated', before.generation + 1])
  await stack.ask(id, 'wake')
  expect(await run(id, 'cat /proc/sys/kernel/random/boot_id')).toBe(boot)
  await run(id, 'echo two > ~/kept; sync')
  const awake = await stack.api('POST', `/v1/desktops/${id}/copies/${first!.id}/restore`)
  expect([awake.status, awake.json.code, awake.json.state]).toEqual([409, 'wrong_state', 'awake'])
  await stack.ask(id, 'hibernate')
  expect((await restore(id, first!.id)).result).toMatchObject({ desktop_state: 'stopped' })
  await stack.ask(id, 'wake')
  expect(await run(id, 'cat ~/kept')).toBe('one\n')
  expect(await run(id, 'cat /proc/sys/kernel/random/boot_id')).not.toBe(boot)
  const other = await stack.newOrg('stranger')
  const foreign = await stack.api('POST', `/v1/desktops/${id}/copies/${first!.id}/restore`, { key: other.key })
  expect(foreign.status).toBe(404)
})

test('a desktop of a lost host comes back on another one, in the boot in which it slept', async () => {
  const { id } = await stack.desktop('awake')
  const boot = await run(id, 'cat /proc/sys/kernel/random/boot_id')
  await stack.ask(id, 'hibernate')
  const [copy] = await copied(id, 1)
  const other = await stack.addHost({ vaultDir: join(folder, 'vaults') })
  await stack.killAgent(0)
  const key = await stack.replica.parts.principals.createOperatorKey('ops')
  const bound = await stack.database.rows(
    `select 1 from desktops where host_id = $1 and state not in ('created', 'destroyed')`,
    [stack.host.id],
  )
  await waitFor('the host to count as lost', async () => {
    // Its last heartbeat may be written late.
    await stack.database.rows(`update hosts set last_heartbeat_at = now() - interval '1 minute' where id = $1`, [
      stack.host.id,
    ])
    const body = { yes_lose: bound.length }
    return (await stack.api('POST', `/admin/v1/hosts/${stack.host.id}/loss`, { key, body })).status === 200
  })
  expect((await stack.see(id)).state).toBe('failed')
  const restored = await restore(id, copy!.id)
  expect(restored.result).toMatchObject({ desktop_state: 'hibernated', host_id: other.id })
  await stack.ask(id, 'wake')
  expect(await run(id, 'cat /proc/sys/kernel/random/boot_id')).toBe(boot)
})

test('a copy with a smaller disk gives that disk, which grows again at the next boot', async () => {
  const { id } = await stack.desktop('hibernated')
  const [copy] = await copied(id, 1)
  const { disk_gib: before } = await stack.see(id)
  expect((await stack.api('PATCH', `/v1/desktops/${id}`, { body: { disk_gib: before + 1 } })).status).toBe(200)
  await stack.ask(id, 'wake', { discard_memory: true })
  await stack.ask(id, 'hibernate')
  expect((await restore(id, copy!.id)).result).toMatchObject({ desktop_state: 'stopped' })
  expect(await stack.see(id)).toMatchObject({ disk_gib: before, next_disk_gib: before + 1 })
  await stack.ask(id, 'wake')
  expect(await stack.see(id)).toMatchObject({ disk_gib: before + 1, next_disk_gib: null })
})
