// Every answer that a test fetches from below /v1, the SDK's among them, is held to the OpenAPI document of the service that
// gave it; what differs fails the test, even if it is caught on the way.
import { afterEach, expect } from 'vitest'
import { checked, plainFetch } from '../openapi.ts'

const untruths: string[] = []

globalThis.fetch = async (input, init) => {
  const response = await plainFetch(input, init)
  const { origin, pathname, search } = new URL(input instanceof Request ? input.url : input)
  if (!pathname.startsWith('/v1')) return response
  const method = init?.method ?? (input instanceof Request ? input.method : 'GET')
  const isJson = /json/.test(response.headers.get('content-type') ?? '')
  // What breaks off here breaks off for its reader, too. Bytes may have no end: they are not looked at.
  const text = isJson ? await response.clone().text() : ''
  const headers = Object.fromEntries(response.headers)
  await checked(origin, { method, path: pathname + search, status: response.status, headers, text }).catch(
    (error: Error) => untruths.push(error.message),
  )
  return response
}

afterEach(() => expect(untruths.splice(0)).toEqual([]))
