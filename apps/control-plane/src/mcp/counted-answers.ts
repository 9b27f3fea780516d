// Counts the answers of a server of tools before they wait for their client to read them. Knows no limit.
import { Refusal } from '@dormouse/contract'
import type { JSONRPCMessage, McpServer } from '@modelcontextprotocol/server'

/** JSON-RPC leaves these codes to servers. */
const refused = -32_000

/** `hold` is called with the bytes of each answer. If it refuses an answer, the reason is sent instead, which is short. */
export function countAnswers(server: McpServer, hold: (bytes: number) => void): McpServer {
  const connect = server.connect.bind(server)
  server.connect = (transport) => {
    const send = transport.send.bind(transport)
    transport.send = (message, options) => send(affordable(message, hold), options)
    return connect(transport)
  }
  return server
}

function affordable(message: JSONRPCMessage, hold: (bytes: number) => void): JSONRPCMessage {
  if (!('result' in message)) return message
  try {
    hold(Buffer.byteLength(JSON.stringify(message)))
    return message
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    const { detail, code, status } = error
    const why = `${detail}. The call was done; its answer was dropped`
    return { jsonrpc: '2.0', id: message.id, error: { code: refused, message: why, data: { code, status } } }
  }
}
