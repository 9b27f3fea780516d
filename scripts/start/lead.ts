// Finds the leader among the control planes of one database. Changes nothing.
import { setTimeout as sleep } from 'node:timers/promises'

const pollMs = 200
/** A frozen one never responds. */
const timeoutMs = 1_000

/** Base URL of the leader; undefined while there is none. */
export async function leaderOf(urls: readonly string[]): Promise<string | undefined> {
  const lead = await Promise.all(urls.map(leads))
  return urls[lead.indexOf(true)]
}

/** Calls `moved` whenever the leader changes, until it is stopped. */
export function followLead(urls: readonly string[], first: string, moved: (url: string) => void): () => Promise<void> {
  const stopping = new AbortController()
  const { signal } = stopping
  const following = (async () => {
    let known = first
    while (!signal.aborted) {
      const url = (await leaderOf(urls)) ?? known
      if (url !== known && !signal.aborted) moved(url)
      known = url
      await sleep(pollMs, undefined, { signal, ref: false }).catch(() => undefined)
    }
  })()
  return async () => {
    stopping.abort()
    await following
  }
}

async function leads(url: string): Promise<boolean> {
  try {
    const answer = await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(timeoutMs) })
    return ((await answer.json()) as { leads: boolean }).leads
  } catch {
    return false
  }
}
