// What the starter asks of the control plane it has started: keys, hosts, what is awake.

import { setTimeout as sleep } from 'node:timers/promises'
import { createAdminClient, type DesktopJson, type HostJson, type OperationJson } from '@dormouse/client'
import type { Instance, Keys } from './instance.ts'

/** Waits until the check answers something, and throws what is said after the time is over. */
export async function until<T>(
  check: () => Promise<T | undefined | false>,
  timeoutMs: number,
  otherwise: () => string,
): Promise<T> {
  const ends = performance.now() + timeoutMs
  for (;;) {
    const value = await check().catch(() => undefined)
    if (value) return value
    if (performance.now() > ends) throw new Error(otherwise())
    await sleep(50)
  }
}

/** Ready means: the database answers and a leader is known. */
export const ready = async (baseUrl: string): Promise<boolean> => (await fetch(`${baseUrl}/readyz`)).ok

/** The instance's own organisation and key, made the first time. */
export async function ensureKeys(
  instance: Instance,
  baseUrl: string,
  makeOperatorKey: () => Promise<string>,
): Promise<Keys> {
  const known = instance.keys()
  if (known && (await works(baseUrl, known))) return known
  const operatorKey = await makeOperatorKey()
  const admin = createAdminClient({ baseUrl, operatorKey })
  const { id: orgId } = await admin.createOrg({ name: 'local' })
  const { api_key: apiKey } = await admin.createKey({ org_id: orgId, name: 'local' })
  const keys = { operatorKey, orgId, apiKey }
  instance.saveKeys(keys)
  return keys
}

/** False after the database was replaced by another one. */
async function works(baseUrl: string, keys: Keys): Promise<boolean> {
  const answers = await Promise.all([
    fetch(`${baseUrl}/admin/v1/orgs`, { headers: { authorization: `Bearer ${keys.operatorKey}` } }),
    fetch(`${baseUrl}/v1/desktops?limit=1`, { headers: { authorization: `Bearer ${keys.apiKey}` } }),
  ])
  return answers.every(({ ok }) => ok)
}

/** Whether the host is linked, well and has the image. */
export const takes = (image: string) => (host: HostJson) =>
  host.linked && host.state === 'active' && host.images.includes(image)

export interface Operators {
  awake(): Promise<DesktopJson[]>
  hibernate(id: string, signal: AbortSignal): Promise<OperationJson>
}

/** What an operator asks about everybody's desktops. */
export function operators(baseUrl: string, operatorKey: string): Operators {
  const ask = async <T>(method: string, path: string, signal?: AbortSignal): Promise<T> => {
    const response = await fetch(`${baseUrl}/admin/v1${path}`, {
      method,
      signal,
      headers: { authorization: `Bearer ${operatorKey}` },
    })
    const body = (await response.json()) as T & { detail?: string }
    if (!response.ok) throw new Error(body.detail ?? `HTTP ${response.status}`)
    return body
  }
  return {
    awake: async () => (await ask<{ desktops: DesktopJson[] }>('GET', '/desktops?state=awake')).desktops,
    hibernate: (id, signal) => ask<OperationJson>('POST', `/desktops/${id}/hibernate?wait=true`, signal),
  }
}
