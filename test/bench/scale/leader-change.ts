// kill -9 of the leader while operations are in flight: how soon the standby accepts a mutation, how long it takes to finish
// what the leader had begun, and whether anything is lost. It is the last subject of a size: it ends the control plane.
import { setTimeout as sleep } from 'node:timers/promises'
import { waitFor } from '../../wait-for.ts'
import type { Connection } from '../connection.ts'
import { counted, inShort, liveOf, standing } from './operations.ts'
import type { ScaleSubject } from './size.ts'

const inFlightMax = 5_000
const callers = 256
const pollMs = 20
const settleMs = 300_000

export const leaderChange: ScaleSubject = {
  name: 'leader',
  what: 'kill -9 of the leader while up to 5,000 hibernations are in flight or wait, with a standby',
  run: async ({ service, desktops, say }) => {
    const standbyUrl = await service.startStandby()
    const left = [...desktops]
    const accepted = new Set<string>()
    const before = await standing(service)
    const statuses = new Map<number, number>()
    let killed = false
    const send = async () => {
      const connection = service.connect()
      for (let id = left.pop(); id && !killed; id = left.pop()) {
        const answer = await connection.send('POST', `/v1/desktops/${id}/hibernate`).catch(() => undefined)
        if (!answer) return
        statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1)
        if (answer.status < 300) accepted.add((JSON.parse(answer.body) as { id: string }).id)
      }
      connection.close()
    }
    let sent = false
    const sending = Promise.all(Array.from({ length: callers }, send)).finally(() => {
      sent = true
    })
    const live = async () => liveOf(await counted(service))
    const enough = Math.min(inFlightMax, desktops.length / 4)
    while ((await live()) < enough && !sent) await sleep(pollMs)
    const inFlight = await live()
    const began = performance.now()
    killed = true
    await service.controlPlane.kill('SIGKILL')
    await sending
    const takeover = await nextAccepted(service.connect(standbyUrl), began)
    say(`  answers before: ${inShort(statuses)}`)
    say(`  ${Math.round(takeover)} ms until a mutation was accepted, ${inFlight} operations to take over`)
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
      alarms: after.alarms - before.alarms,
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
