// How long the bytes of an answer may make no progress: whoever does not read is hung up on. Knows no route.
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { App } from './app.ts'

/** Cuts each answer of which no byte is taken for so long, from the moment that it is its connection's turn. */
export function abortStalledResponses(app: App, stallMs: number): void {
  const sent = new WeakMap<Socket, ServerResponse>()
  const watch = (response: ServerResponse, socket: Socket) => {
    sent.set(socket, response)
    socket.setTimeout(stallMs)
  }
  app.addHook('onSend', (_request, { raw: response }, _payload, done) => {
    if (response.socket) watch(response, response.socket)
    // It waits behind others, whose answers are still being made.
    else response.once('socket', (socket: Socket) => watch(response, socket))
    done()
  })
  // Node waits for the next request from here on, unless that is there already and takes its time.
  app.addHook('onResponse', ({ raw: { socket } }, { raw: response }, done) => {
    if (sent.get(socket) !== response) return done()
    sent.delete(socket)
    if (isBusy(socket)) socket.setTimeout(0)
    done()
  })
}

const isBusy = (socket: Socket & { _httpMessage?: ServerResponse | null }): boolean => Boolean(socket._httpMessage)
