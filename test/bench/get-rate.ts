// GET of one desktop, beside bare Fastify with one primary-key query on the same Postgres, in turn.
import { once } from 'node:events'
import { Agent, request } from 'node:http'
import { fileURLToPath } from 'node:url'
import { Worker } from 'node:worker_threads'
import type { Instance } from '../real/parts/instance.ts'

const connections = 16
const secondsEach = 3

export interface Floor {
  url: string
  /** Rejects when the floor's thread has failed. */
  failed: Promise<never>
  stop(): Promise<void>
}

/** The floor in its thread, ready to be asked. */
export async function startFloor(databaseUrl: string, id: string): Promise<Floor> {
  const file = fileURLToPath(new URL('./floor.ts', import.meta.url))
  const worker = new Worker(file, { workerData: { databaseUrl, id } })
  const failed = once(worker, 'error').then(([error]) => {
    throw new Error('the floor of the GET figures failed', { cause: error })
  })
  // Nobody may wait for it at the moment it fails; whoever measures does.
  failed.catch(() => undefined)
  const [port] = (await Promise.race([once(worker, 'message'), failed])) as [number]
  return { url: `http://127.0.0.1:${port}/`, failed, stop: async () => void (await worker.terminate()) }
}

/** Requests per second of both, the median of three turns each. */
export async function getRates(instance: Instance, id: string) {
  const floor = await startFloor(instance.databaseUrl, id)
  const { base_url, api_key } = instance.local
  const ours = { url: `${base_url}/v1/desktops/${id}`, key: api_key }
  const bare = { url: floor.url, key: '' }
  const rates: { ours: number[]; floor: number[] } = { ours: [], floor: [] }
  try {
    for (let turn = 0; turn < 3; turn++) {
      rates.floor.push(await Promise.race([rate(bare), floor.failed]))
      rates.ours.push(await Promise.race([rate(ours), floor.failed]))
    }
  } finally {
    await floor.stop()
  }
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
        response.on('error', reject).resume().on('end', resolve)
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
