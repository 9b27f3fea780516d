// `Expect: 100-continue`: the body is requested only after authentication. Knows no credential.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { App } from './app.ts'

/** Sends `100 Continue` when a body is about to be read. A request that is refused before that closes its connection. */
export function delayContinue(app: App): void {
  const withheld = new WeakSet<IncomingMessage>()
  app.server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    withheld.add(request)
    app.server.emit('request', request, response)
  })
  // Unknown expectations are ignored. By default Node would respond before authentication.
  app.server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
    app.server.emit('request', request, response)
  })
  app.addHook('preParsing', (request, reply, _payload, done) => {
    if (withheld.delete(request.raw)) reply.raw.writeContinue()
    done()
  })
  app.addHook('onSend', (request, reply, _payload, done) => {
    // The client may still send the body or not: the next bytes are ambiguous.
    if (withheld.has(request.raw)) reply.header('connection', 'close')
    done()
  })
}
