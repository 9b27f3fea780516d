// Guarantee: the size of a screen is what the guest reports, and each way in which it cannot be changed has its own error.
import { expect, onTestFinished, test } from 'vitest'
import { createClient } from './client.ts'
import { DormouseError, InvalidRequestError } from './errors.ts'
import { setResolution } from './resolution.ts'
import { desktopId } from './testing/samples.ts'
import { problem, serve } from './testing/scripted-server.ts'

async function answering(end: { exit_code: number; stdout?: string; stderr?: string }) {
  const server = await serve(() => ({ body: { stdout: '', stderr: '', ...end } }))
  onTestFinished(() => server[Symbol.asyncDispose]())
  const client = createClient({ baseUrl: server.baseUrl, apiKey: 'svc_sk_test' })
  return setResolution(client, desktopId, { width: 1920, height: 1080 })
}

test('what the guest reports is returned', async () => {
  expect(await answering({ exit_code: 0, stdout: '1920x1080\n' })).toEqual({ width: 1920, height: 1080 })
})

test.each([
  [{ exit_code: 2, stderr: 'the width must be a multiple of 8, but is 1001\n' }, InvalidRequestError, /1001$/],
  [{ exit_code: 127 }, DormouseError, /image cannot change its resolution/],
  [{ exit_code: 1, stderr: 'no screen' }, DormouseError, /was not changed: no screen/],
])('%j is an error', async (end, type, message) => {
  const error = await answering(end).catch((thrown: unknown) => thrown)
  expect(error).toBeInstanceOf(type)
  expect((error as Error).message).toMatch(message)
})

test('a guest that has no such program is an image without a screen, however the service says it', async () => {
  const server = await serve(() => problem(409, 'command_not_run', 'no such program'))
  onTestFinished(() => server[Symbol.asyncDispose]())
  const client = createClient({ baseUrl: server.baseUrl, apiKey: 'svc_sk_test' })
  await expect(setResolution(client, desktopId, { width: 800, height: 600 })).rejects.toThrow(
    /image cannot change its resolution.*such as `desktop`/,
  )
})
