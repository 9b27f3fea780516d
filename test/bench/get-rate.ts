// GET of one desktop, beside bare Fastify with one primary-key query on the same Postgres, in turn.
import { once } from 'node:events'
import { Agent, request } from 'node:http'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import type { Instance } from '../real/instance.ts'

const connections = 16
const secondsEach = 3

/** Requests per second of both, the median of three turns each. */
export async function getRates(instance: Instance, id: string) {
  const floor = new Worker(fileURLToPath(new URL('./floor.ts', import.meta.url)), {
    workerData: { databaseUrl: instance.databaseUrl, id },
  })
  const [port] = (await once(floor, 'message')) as [number]
  const { base_url, api_key } = instance.local
  const ours = { url: `${base_url}/v1/desktops/${id}`, key: api_key }
  const bare = { url: `http://127.0.0.1:${port}/`, key: '' }
  const rates: { ours: number[]; floor: number[] } = { ours: [], floor: [] }
  for (let turn = 0; turn < 3; turn++) {
    rates.floor.push(await rate(bare))
    rates.ours.push(await rate(ours))
  }
  await floor.terminate()
  const median = (all: number[]) => Math.round(all.toSorted((a, b) => a - b)[1]!)
  const [get, bareGet] = [median(rates.ours), median(rates.floor)]
  return { 'GET per second': { ours: get, floor: bareGet, ratio: Math.round((get / bareGet) * 100) / 100 } }
}

async function rate({ url, key }: { url: string; key: string }): Promise<number> {
  const agent = new Agent({ keepAlive: true, maxSockets: connections })
  const ends = performance.now() + secondsEach * 1_000
  let answered = 0
  const one = () =>
    new Promise<void>((resolve, reject) => {
      const sent = request(url, { agent, headers: { authorization: `Bearer ${key}` } }, (response) => {
        if (response.statusCode !== 200) reject(new Error(`${url} answered ${response.statusCode}`))
        response.resume().on('end', resolve)
      })
      sent.on('error', reject).end()
    })
  const client = async () => {
    while (performance.now() < ends) {
      await one()
      answered++
    }
  }
  await Promise.all(Array.from({ length: connections }, client))
  agent.destroy()
  return answered / secondsEach
}
