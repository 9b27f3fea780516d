// `Expect: 100-continue`: a body is asked for only from those who passed the door. Knows no credential.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { App } from './app.ts'

/** Asks for a withheld body where it is about to be read; a request refused before that ends its connection. */
export function delayContinue(app: App): void {
  const withheld = new WeakSet<IncomingMessage>()
  app.server.on('checkContinue', (request: IncomingMessage, response: ServerResponse) => {
    withheld.add(request)
    app.server.emit('request', request, response)
  })
  // An expectation nobody knows may be ignored; left alone, node answers it without looking at the credential.
  app.server.on('checkExpectation', (request: IncomingMessage, response: ServerResponse) => {
    app.server.emit('request', request, response)
  })
  app.addHook('preParsing', (request, reply, _payload, done) => {
    if (withheld.delete(request.raw)) reply.raw.writeContinue()
    done()
  })
  app.addHook('onSend', (request, reply, _payload, done) => {
    // Whether the client still sends the body is not known: the next bytes could be either.
    if (withheld.has(request.raw)) reply.header('connection', 'close')
    done()
  })
}
