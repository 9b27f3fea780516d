// The control plane's memory after lists of 2,000 and 20,000 creates, beside bare Fastify with `pg` after the same lists.
import { setTimeout as sleep } from 'node:timers/promises'
import { residentMiB } from '../cpu.ts'
import type { Service } from '../service.ts'
import { eachSide, type Measured, type Rounds, rowOf, type Side, type Subject } from '../subject.ts'

const lists = 50
const settleMs = 3_000

export const memory: Subject = {
  name: 'memory',
  what: 'resident memory of the control plane, started afresh, after 50 lists of 2,000 and 20,000 creates',
  hosts: 'simulated',
  seconds: { fixed: 35, perRound: 0 },
  run: async (bench) => {
    const taken: Rounds = {}
    for (const [side, measure] of Object.entries(eachSide(bench.sides, memoryOf)))
      taken[side as Side] = [await measure()]
    const row = { subject: 'memory', unit: 'MiB', better: 'less' } as const
    return [
      rowOf(taken, { ...row, name: 'control plane, idle', of: 'idle' }),
      rowOf(taken, {
        ...row,
        name: 'control plane, after lists of 2,000 and 20,000 creates',
        of: 'after',
        goal: { figure: 200 },
      }),
    ]
  },
}

async function memoryOf(service: Service): Promise<Measured> {
  await service.restartControlPlane()
  await service.enterNewOrg()
  const pid = service.controlPlane.pid!
  const idle = residentMiB(pid)
  await service.create(2_000)
  const connection = service.connect()
  for (let at = 0; at < lists; at++) {
    const { status } = await connection.send('GET', '/v1/desktops')
    if (status !== 200) throw new Error(`list: ${status}`)
  }
  connection.close()
  await service.create(20_000)
  await sleep(settleMs)
  return { idle, after: residentMiB(pid) }
}
