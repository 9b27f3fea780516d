// What one operation costs while nothing else happens: it should not depend on how many desktops and hosts there are.
import { percentile } from '../statistics.ts'
import type { ScaleSubject, Stage } from './size.ts'

export const oneOperation: ScaleSubject = {
  name: 'one',
  what: 'wake and hibernate of one desktop, one at a time: latency, and the CPU above that of the idle service',
  run: async (stage) => {
    const { service, quick } = stage
    const pairs = quick ? 60 : 150
    const [id] = await service.create(1)
    const times: number[] = []
    const connection = service.connect()
    const ask = async (verb: string) => {
      const began = performance.now()
      const { status, body } = await connection.send('POST', `/v1/desktops/${id}/${verb}?wait=true`)
      if (status !== 200) throw new Error(`${verb}: ${status} ${body}`)
      times.push(performance.now() - began)
    }
    for (let at = 0; at < 10; at++) await ask(at % 2 === 0 ? 'wake' : 'hibernate')
    times.length = 0
    const idle = await usedOver(stage, () => new Promise((resolve) => setTimeout(resolve, quick ? 3_000 : 10_000)))
    const used = await usedOver(stage, async () => {
      for (let at = 0; at < pairs; at++) {
        await ask('wake')
        await ask('hibernate')
      }
    })
    connection.close()
    const each = (name: string) =>
      Math.max(0, used.perSecond[name]! - idle.perSecond[name]!) * (used.seconds / times.length)
    return {
      'p50, ms': percentile(times, 0.5),
      'p99, ms': percentile(times, 0.99),
      'control plane, CPU ms': each('control plane'),
      'Postgres, CPU ms': each('Postgres'),
      'hosts, CPU ms': each('hosts'),
    }
  },
}

/** CPU in ms per second of each kind of process during the work. */
async function usedOver({ service }: Stage, work: () => Promise<unknown>) {
  const [before, began] = [service.cpuMs(), performance.now()]
  await work()
  const [after, seconds] = [service.cpuMs(), (performance.now() - began) / 1_000]
  const perSecond = Object.fromEntries(
    Object.entries(after).map(([name, ms]) => [name, (ms - before[name]!) / seconds]),
  )
  return { perSecond, seconds }
}
