// Which of the control planes on one database leads. Asks them, and changes nothing.
import { setTimeout as sleep } from 'node:timers/promises'

const lookEveryMs = 200
/** One that is frozen does not answer at all. */
const patienceMs = 1_000

/** Base URL of the one that leads; undefined while none does. */
export async function leaderOf(urls: readonly string[]): Promise<string | undefined> {
  const lead = await Promise.all(urls.map(leads))
  return urls[lead.indexOf(true)]
}

/** Says whenever another one leads than before, until it is stopped. */
export function followLead(urls: readonly string[], first: string, moved: (url: string) => void): () => Promise<void> {
  const stopping = new AbortController()
  const { signal } = stopping
  const following = (async () => {
    let known = first
    while (!signal.aborted) {
      const url = (await leaderOf(urls)) ?? known
      if (url !== known && !signal.aborted) moved(url)
      known = url
      await sleep(lookEveryMs, undefined, { signal, ref: false }).catch(() => undefined)
    }
  })()
  return async () => {
    stopping.abort()
    await following
  }
}

async function leads(url: string): Promise<boolean> {
  try {
    const answer = await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(patienceMs) })
    return ((await answer.json()) as { leads: boolean }).leads
  } catch {
    return false
  }
}
