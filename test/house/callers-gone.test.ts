// Guarantee: who goes away before the answer is waited for no longer; what was accepted goes on without him.
import { connect } from 'node:net'
import { expect, test } from 'vitest'
import { House } from '../house.ts'
import { waitFor } from '../wait-for.ts'

/** A desktop whose hibernation hangs, waited for over a connection that the test holds; `before` is sent first on it. */
async function waiting(house: House, before = '') {
  const { id } = await house.desktop('awake')
  const release = house.host.driver.faults.hang('save')
  const { hostname, port } = new URL(house.url)
  const socket = connect(Number(port), hostname)
  socket.write(before + request(house, `/v1/desktops/${id}/hibernate?wait=true`))
  await waitFor('somebody to wait', () => house.replica.parts.waiters.count === 1)
  const [{ id: operation }] = (await house.api('GET', `/v1/desktops/${id}/operations`)).json.operations
  return { id, socket, release, operation }
}

const request = (house: House, path: string, body = ''): string =>
  [
    `POST ${path} HTTP/1.1`,
    'Host: x',
    `Authorization: Bearer ${house.org.key}`,
    `Content-Length: ${body.length}`,
    '',
    body,
  ].join('\r\n')

const nobodyWaits = (house: House) => {
  const { waiters, inFlight, pool } = house.replica.parts
  return waitFor(
    'nobody to wait and nothing to be held',
    () => waiters.count === 0 && inFlight.count === 0 && pool.idleCount === pool.totalCount,
  )
}

test('a caller who goes away in the middle of a wait is waited for no more, and the operation goes on', async () => {
  await using house = await House.start()
  const { socket, release, operation, id } = await waiting(house)
  socket.destroy()
  await nobodyWaits(house)
  expect(['pending', 'running']).toContain((await house.operation(operation)).state)
  release()
  expect((await house.settled(operation)).state).toBe('succeeded')
  expect((await house.see(id)).state).toBe('hibernated')
})

test('also where the wait stands behind another request on its connection', async () => {
  await using house = await House.start()
  const { id: busy } = await house.desktop('awake')
  const letGo = house.host.driver.faults.hang('exec')
  const exec = request(house, `/v1/desktops/${busy}/exec`, '{"command":"true"}')
  const { socket, release, operation } = await waiting(house, exec)
  socket.destroy()
  await waitFor('nobody to wait', () => house.replica.parts.waiters.count === 0)
  letGo()
  release()
  expect((await house.settled(operation)).state).toBe('succeeded')
  await nobodyWaits(house)
})

test('a command whose caller goes away runs to its end', async () => {
  await using house = await House.start()
  const { id } = await house.desktop('awake')
  const release = house.host.driver.faults.hang('exec')
  const gone = new AbortController()
  const body = { command: 'echo done > /srv/x' }
  const asked = house.api('POST', `/v1/desktops/${id}/exec`, { body, signal: gone.signal }).catch((error) => error)
  await waitFor('the command to begin', () => house.host.driver.faults.counts.exec === 1)
  gone.abort()
  expect(await asked).toBeInstanceOf(Error)
  await waitFor('the request to be forgotten', () => house.replica.parts.inFlight.count === 0)
  release()
  await waitFor('its work to be done', async () => (await house.exec(id, 'cat /srv/x')).json.stdout === 'done\n')
})
