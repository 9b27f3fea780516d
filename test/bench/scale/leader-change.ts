// kill -9 of the leader while operations are in flight: how soon the standby accepts a mutation, how long it takes to finish
// what the leader had begun, and whether anything is lost. It is the last subject of a size: it ends the control plane.
import { setTimeout as sleep } from 'node:timers/promises'
import { waitFor } from '../../wait-for.ts'
import type { Connection } from '../connection.ts'
import type { ScaleSubject } from './size.ts'
import { standing } from './storm.ts'

const inFlightMax = 1_000
const settleMs = 300_000

export const leaderChange: ScaleSubject = {
  name: 'leader',
  what: 'kill -9 of the leader while up to 1,000 hibernations are in flight, with a standby',
  run: async ({ service, desktops }) => {
    const standbyUrl = await service.startStandby()
    const chosen = desktops.slice(0, inFlightMax)
    const left = [...chosen]
    const accepted = new Set<string>()
    const before = await standing(service)
    const send = async () => {
      const connection = service.connect()
      for (let id = left.pop(); id; id = left.pop()) {
        const answer = await connection.send('POST', `/v1/desktops/${id}/hibernate`).catch(() => undefined)
        if (!answer) return
        if (answer.status < 300) accepted.add((JSON.parse(answer.body) as { id: string }).id)
      }
      connection.close()
    }
    const sending = Promise.all(Array.from({ length: 64 }, send))
    await Promise.race([waitFor('half to be accepted', () => accepted.size >= chosen.length / 2, settleMs), sending])
    const live = async () => {
      const { rows } = await service.database.query<{ count: number }>(
        `select count(*)::int as count from operations where state in ('pending', 'running')`,
      )
      return rows[0]!.count
    }
    const inFlight = await live()
    const began = performance.now()
    await service.controlPlane.kill('SIGKILL')
    await sending
    const takeover = await nextAccepted(service.connect(standbyUrl), began)
    await waitFor('what was in flight to settle', async () => (await live()) === 0, settleMs)
    const settledMs = performance.now() - began
    const { rows } = await service.database.query<{ count: number }>(
      `select count(*)::int as count from operations where id = any($1) and state = 'succeeded'`,
      [[...accepted]],
    )
    const after = await standing(service)
    return {
      'in flight': inFlight,
      'until a mutation is accepted, ms': takeover,
      'until all have settled, ms': settledMs,
      accepted: accepted.size,
      'settled well': rows[0]!.count,
      'changes of leader': after.epoch - before.epoch,
    }
  },
}

/** Milliseconds from then until this control plane accepts a create. */
async function nextAccepted(connection: Connection, began: number) {
  for (;;) {
    const { status } = await connection.send('POST', '/v1/desktops', '{"tier":"small"}')
    if (status === 201) break
    await sleep(5)
  }
  connection.close()
  return performance.now() - began
}
