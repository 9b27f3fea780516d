import { EventEmitter } from 'node:events'
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { expect, test } from 'vitest'
import { Addresses } from './addresses.ts'
import type { App } from './app.ts'
import { type ConnectionLimits, Connections } from './connections.ts'

function counted(limits: Partial<ConnectionLimits>) {
  const server = new EventEmitter()
  const over: IncomingMessage[] = []
  const gone: Socket[] = []
  let answered: (request: { raw: IncomingMessage }, reply: undefined, done: () => void) => void = () => undefined
  const connections = new Connections({
    limits: { perAddress: 100, perCredential: 100, total: 100, ...limits },
    addresses: new Addresses([]),
    evict: (socket) => gone.push(socket),
    over: (request) => over.push(request),
  })
  const addHook = (_name: string, hook: typeof answered) => {
    answered = hook
  }
  connections.watch({ server, addHook } as unknown as App)
  const connect = (remoteAddress = '192.0.2.1') => {
    const socket = Object.assign(new EventEmitter(), { remoteAddress }) as unknown as Socket
    server.emit('connection', socket)
    return socket
  }
  const request = (socket = connect()) => ({ socket, headers: {} }) as IncomingMessage
  const end = (raw: IncomingMessage) => answered({ raw }, undefined, () => undefined)
  return { connections, connect, request, end, gone, over }
}

test('where everybody has shown a credential, the oldest of the one that holds most gives way', () => {
  const { connections, connect, request, gone } = counted({ total: 5 })
  const one = request()
  connections.countByCredential(one, 'a')
  const many = Array.from({ length: 4 }, () => request())
  for (const each of many) connections.countByCredential(each, 'b')
  connect()
  expect(gone).toEqual([many[0]!.socket])
  // From here on, unauthenticated clients have one place, and each new one displaces the last.
  const next = connect()
  expect(gone.length).toBe(2)
  expect(gone).not.toContain(next)
})

test('a connection between two requests is a stranger’s again, and the last that gives way', () => {
  const { connections, connect, request, end, gone } = counted({ perAddress: 2 })
  const [first, second] = [connect(), connect()]
  const asked = request(first)
  connections.countByCredential(asked, 'a')
  end(asked)
  connect()
  expect(gone).toEqual([second])
})

test('two requests on one connection are two, and the connection is a stranger’s only when both are over', () => {
  const { connections, connect, request, end, gone } = counted({ perAddress: 1, perCredential: 2 })
  const socket = connect()
  const [one, two] = [request(socket), request(socket)]
  connections.countByCredential(one, 'a')
  connections.countByCredential(two, 'a')
  expect(() => connections.countByCredential(request(socket), 'a')).toThrow('more than 2 concurrent requests')
  end(one)
  connect()
  expect(gone).toEqual([])
  end(two)
  expect(gone.length).toBe(1)
})

test('what a connection held is over with it, and nothing is kept of anybody', () => {
  const { connections, request, over } = counted({})
  const [proven, stranger] = [request(), request()]
  connections.countByCredential(proven, 'a')
  expect(connections.ownerOf(proven)).toEqual({ name: 'credential a', isAuthenticated: true })
  expect(connections.ownerOf(stranger)).toEqual({ name: 'address 192.0.2.1', isAuthenticated: false })
  for (const { socket } of [proven, stranger]) socket.emit('close')
  expect(over).toEqual([proven, stranger])
  expect(connections.count).toBe(0)
  expect(connections.countByCredential(request(proven.socket), 'a')).toBeUndefined()
})
