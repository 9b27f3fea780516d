// Requests of `npm start` to its control plane: keys, hosts, awake desktops.
import { createAdminClient, type DesktopJson, type HostJson, type OperationJson } from '@dormouse/client'
import type { Instance, Keys } from './instance.ts'

/** Ready means: the database responds and a leader is known. */
export const isReady = (baseUrl: string): Promise<boolean> =>
  fetch(`${baseUrl}/readyz`).then(
    ({ ok }) => ok,
    () => false,
  )

/** The instance's own organisation and keys, created on the first start. */
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

/** False if the database was replaced by another one. */
async function works(baseUrl: string, keys: Keys): Promise<boolean> {
  const answers = await Promise.all([
    fetch(`${baseUrl}/admin/v1/orgs`, { headers: { authorization: `Bearer ${keys.operatorKey}` } }),
    fetch(`${baseUrl}/v1/desktops?limit=1`, { headers: { authorization: `Bearer ${keys.apiKey}` } }),
  ])
  return answers.every(({ ok }) => ok)
}

/** Whether the host is connected, healthy and has the image. */
export const canRun = (image: string) => (host: HostJson) =>
  host.linked && host.state === 'active' && host.images.includes(image)

export interface Operators {
  awake(): Promise<DesktopJson[]>
  hibernate(id: string, signal: AbortSignal): Promise<OperationJson>
}

/** An operator's view of the desktops of all organisations. */
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
