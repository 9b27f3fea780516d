// Aborts responses whose client does not read. Knows no route.
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { App } from './app.ts'

/** Closes the connection of a response that makes no progress for `stallMs`, from the moment it is the connection's turn. */
export function abortStalledResponses(app: App, stallMs: number): void {
  const sent = new WeakMap<Socket, ServerResponse>()
  const watch = (response: ServerResponse, socket: Socket) => {
    sent.set(socket, response)
    socket.setTimeout(stallMs)
  }
  app.addHook('onSend', (_request, { raw: response }, _payload, done) => {
    if (response.socket) watch(response, response.socket)
    // A pipelined response, which waits behind others.
    else response.once('socket', (socket: Socket) => watch(response, socket))
    done()
  })
  // From here on Node waits for the next request, unless one is in progress already.
  app.addHook('onResponse', ({ raw: { socket } }, { raw: response }, done) => {
    if (sent.get(socket) !== response) return done()
    sent.delete(socket)
    if (isBusy(socket)) socket.setTimeout(0)
    done()
  })
}

const isBusy = (socket: Socket & { _httpMessage?: ServerResponse | null }): boolean => Boolean(socket._httpMessage)
