// What customers do while something else is tried: reads, calls into a guest and whole life cycles of desktops, each answer
// noted. Judges nothing.
import { setTimeout as sleep } from 'node:timers/promises'
import { newId, type OperationJson } from '@dormouse/contract'
import type { Stack } from '../../stack.ts'

export interface Noted {
  what: string
  status: number
  ms: number
}

export interface TrafficWish {
  /** An awake desktop, whose guest is asked, too. */
  awake?: string
}

export interface Traffic extends AsyncDisposable {
  readonly noted: readonly Noted[]
  /** Ends it; answers everything that was answered, the slowest first. */
  stop(): Promise<Noted[]>
}

/** Goes on until it is stopped. What is refused is asked again, with the same key, as any client does. */
export function beginTraffic(stack: Stack, { awake }: TrafficWish = {}): Traffic {
  const noted: Noted[] = []
  const ending = new AbortController()
  const ask = async (method: string, path: string, wish: { body?: object; headers?: Record<string, string> } = {}) => {
    const began = performance.now()
    const answer = await stack.api(method, path, wish)
    const what = `${method} ${path.replace(/[0-9a-f-]{36}/, ':id')}`
    noted.push({ what, status: answer.status, ms: performance.now() - began })
    return answer
  }
  const mutate = async (path: string, body?: object) => {
    const headers = { 'idempotency-key': newId() }
    for (;;) {
      const answer = await ask('POST', path, { ...(body && { body }), headers })
      if (answer.status !== 503 || ending.signal.aborted) return answer
      await sleep(20)
    }
  }
  const live = async () => {
    while (!ending.signal.aborted) {
      const made = await mutate('/v1/desktops', { tier: 'small' })
      for (const verb of ['wake', 'hibernate', 'wake', 'destroy'])
        if (made.status < 300) await mutate(`/v1/desktops/${made.json.id}/${verb}?wait=true`)
    }
  }
  // Without a key nothing may be asked again: then each answer is the only one.
  const create = async () => {
    while (!ending.signal.aborted) {
      await ask('POST', '/v1/desktops', { body: { tier: 'large' } })
      await sleep(10)
    }
  }
  const read = async () => {
    while (!ending.signal.aborted) {
      const { json } = await ask('GET', '/v1/desktops?limit=20')
      const id = json.desktops?.[0]?.id as string | undefined
      if (id) {
        await ask('GET', `/v1/desktops/${id}`)
        const { json: listed } = await ask('GET', `/v1/desktops/${id}/operations`)
        for (const operation of (listed.operations as OperationJson[] | undefined)?.slice(0, 1) ?? [])
          await ask('GET', `/v1/operations/${operation.id}`)
      }
      await ask('GET', '/v1/usage')
      await sleep(10)
    }
  }
  const enter = async () => {
    while (awake && !ending.signal.aborted) {
      await ask('POST', `/v1/desktops/${awake}/exec`, { body: { command: 'echo here' } })
      await ask('PUT', `/v1/desktops/${awake}/files/srv/word`, { body: { a: 'word' } })
      await ask('GET', `/v1/desktops/${awake}/files/srv/word`)
      await ask('POST', `/v1/desktops/${awake}/stream`, { body: { claim: 'control' } })
      await sleep(10)
    }
  }
  const underWay = [live(), live(), create(), read(), enter()]
  const stop = async () => {
    ending.abort()
    await Promise.all(underWay)
    return noted.toSorted((a, b) => b.ms - a.ms)
  }
  return { noted, stop, [Symbol.asyncDispose]: async () => void (await stop()) }
}

/** How often each status was answered to each request. */
export function countsOf(noted: readonly Noted[]): Record<string, Record<number, number>> {
  const counts: Record<string, Record<number, number>> = {}
  for (const { what, status } of noted) {
    counts[what] ??= {}
    counts[what][status] = (counts[what][status] ?? 0) + 1
  }
  return counts
}
