// Guarantee: who goes away before the answer is waited for no longer; what was accepted goes on without him.
import { connect } from 'node:net'
import { expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'

/** A desktop whose hibernation hangs, waited for over a connection that the test holds; `before` is sent first on it. */
async function waiting(stack: Stack, before = '') {
  const { id } = await stack.desktop('awake')
  const release = stack.host.driver.faults.hang('save')
  const { hostname, port } = new URL(stack.url)
  const socket = connect(Number(port), hostname)
  socket.write(before + request(stack, `/v1/desktops/${id}/hibernate?wait=true`))
  await waitFor('somebody to wait', () => stack.replica.parts.waiters.count === 1)
  const [{ id: operation }] = (await stack.api('GET', `/v1/desktops/${id}/operations`)).json.operations
  return { id, socket, release, operation }
}

const request = (stack: Stack, path: string, body = ''): string =>
  [
    `POST ${path} HTTP/1.1`,
    'Host: x',
    `Authorization: Bearer ${stack.org.key}`,
    `Content-Length: ${body.length}`,
    '',
    body,
  ].join('\r\n')

const nobodyWaits = (stack: Stack) => {
  const { waiters, inFlight, pool } = stack.replica.parts
  return waitFor(
    'nobody to wait and nothing to be held',
    () => waiters.count === 0 && inFlight.count === 0 && pool.idleCount === pool.totalCount,
  )
}

test('a caller who goes away in the middle of a wait is waited for no more, and the operation goes on', async () => {
  await using stack = await Stack.start()
  const { socket, release, operation, id } = await waiting(stack)
  socket.destroy()
  await nobodyWaits(stack)
  expect(['pending', 'running']).toContain((await stack.operation(operation)).state)
  release()
  expect((await stack.settled(operation)).state).toBe('succeeded')
  expect((await stack.see(id)).state).toBe('hibernated')
})

test('also where the wait stands behind another request on its connection', async () => {
  await using stack = await Stack.start()
  const { id: busy } = await stack.desktop('awake')
  const letGo = stack.host.driver.faults.hang('exec')
  const exec = request(stack, `/v1/desktops/${busy}/exec`, '{"command":"true"}')
  const { socket, release, operation } = await waiting(stack, exec)
  socket.destroy()
  await waitFor('nobody to wait', () => stack.replica.parts.waiters.count === 0)
  letGo()
  release()
  expect((await stack.settled(operation)).state).toBe('succeeded')
  await nobodyWaits(stack)
})

test('a command whose caller goes away runs to its end', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const release = stack.host.driver.faults.hang('exec')
  const gone = new AbortController()
  const body = { command: 'echo done > /srv/x' }
  const asked = stack.api('POST', `/v1/desktops/${id}/exec`, { body, signal: gone.signal }).catch((error) => error)
  await waitFor('the command to begin', () => stack.host.driver.faults.counts.exec === 1)
  gone.abort()
  expect(await asked).toBeInstanceOf(Error)
  await waitFor('the request to be forgotten', () => stack.replica.parts.inFlight.count === 0)
  release()
  await waitFor('its work to be done', async () => (await stack.exec(id, 'cat /srv/x')).json.stdout === 'done\n')
})
