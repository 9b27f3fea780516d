// A tool of an agent over HTTP beside the request that it makes: what the protocol costs.
import type { Connection } from '../connection.ts'
import { load } from '../load.ts'
import { alternate, eachSide, type Measured, rowOf, type Subject } from '../subject.ts'

const listed = 20
const call = JSON.stringify({
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: { name: 'desktop_list', arguments: { limit: listed } },
})

export const mcp: Subject = {
  name: 'mcp',
  what: 'the tool desktop_list over HTTP, one call at a time, beside GET /v1/desktops of the same service',
  hosts: 'simulated',
  seconds: { fixed: 3, perRound: 4 },
  run: async ({ sides, rounds, secondsEach }) => {
    for (const service of Object.values(sides)) await service.create(listed)
    const measure = async (connection: Connection, work: () => Promise<void>): Promise<Measured> => {
      const { rate, p50, p99 } = await load(1, secondsEach, work)
      connection.close()
      return { rate, p50, p99 }
    }
    const tool = (connection: Connection) => measure(connection, () => listByTool(connection))
    const plain = (connection: Connection) => measure(connection, () => list(connection))
    const taken = await alternate(
      rounds,
      eachSide(
        sides,
        (service) => tool(service.connect()),
        () => plain(sides.ours.connect()),
      ),
    )
    const row = { subject: 'mcp', name: 'desktop_list', floor: 'GET /v1/desktops' }
    return [rowOf(taken, { ...row, unit: 'ms, p50', better: 'less', of: 'p50', ratioKind: 'multiple' })]
  },
}

async function listByTool(connection: Connection): Promise<void> {
  const { status, body } = await connection.send(
    'POST',
    '/mcp',
    call,
    'accept: application/json, text/event-stream\r\n',
  )
  if (status !== 200 || !body.includes('"content"')) throw new Error(`POST /mcp: ${status} ${body.slice(0, 200)}`)
}

async function list(connection: Connection): Promise<void> {
  const { status, body } = await connection.send('GET', `/v1/desktops?limit=${listed}`)
  if (status !== 200) throw new Error(`GET /v1/desktops: ${status} ${body.slice(0, 200)}`)
}
