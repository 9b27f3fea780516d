// What customers do meanwhile: reads, creates and whole lives of desktops, one after the other, each answer noted.
import { setTimeout as sleep } from 'node:timers/promises'
import type { House } from '../house.ts'

export interface Noted {
  what: string
  status: number
  ms: number
}

/** Until it is stopped. Answers everything that was answered, the slowest first. */
export function beginTraffic(house: House): AsyncDisposable & { stop(): Promise<Noted[]> } {
  const noted: Noted[] = []
  const ending = new AbortController()
  const ask = async (method: string, path: string, body?: object) => {
    const began = performance.now()
    const { status, json } = await house.api(method, path, { body })
    noted.push({ what: `${method} ${path.replace(/[0-9a-f-]{36}/, ':id')}`, status, ms: performance.now() - began })
    return json
  }
  const live = async () => {
    while (!ending.signal.aborted) {
      const { id } = await ask('POST', '/v1/desktops', { tier: 'small' })
      for (const verb of ['wake', 'hibernate', 'wake', 'destroy'])
        await ask('POST', `/v1/desktops/${id}/${verb}?wait=true`)
    }
  }
  const read = async () => {
    while (!ending.signal.aborted) {
      const { desktops } = await ask('GET', '/v1/desktops?limit=20')
      if (desktops[0]) await ask('GET', `/v1/desktops/${desktops[0].id}`)
      await sleep(10)
    }
  }
  const under = [live(), live(), read()]
  const stop = async () => {
    ending.abort()
    await Promise.all(under)
    return noted.toSorted((a, b) => b.ms - a.ms)
  }
  return { stop, [Symbol.asyncDispose]: async () => void (await stop()) }
}
