// Requests of `npm start` to its control plane: keys, hosts, awake desktops.
import {
  createAdminClient,
  createClient,
  type DesktopJson,
  DormouseError,
  type HostJson,
  type OperationJson,
} from '@dormouse/client'
import type { Instance, Keys } from './instance.ts'

/** How often to poll while waiting: often enough for a person, and little beside the work that is waited for. */
export const apiPollMs = 50

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
async function works(baseUrl: string, { operatorKey, apiKey }: Keys): Promise<boolean> {
  const accepted = await Promise.all([
    isAccepted(createAdminClient({ baseUrl, operatorKey, retries: 0 }).listOrgs()),
    isAccepted(createClient({ baseUrl, apiKey, retries: 0 }).listDesktops({ limit: 1 })),
  ])
  return accepted.every(Boolean)
}

const isAccepted = (call: Promise<unknown>): Promise<boolean> =>
  call.then(
    () => true,
    (error: unknown) => {
      if (error instanceof DormouseError && error.status !== undefined) return false
      throw error
    },
  )

/** Whether the host is connected, healthy and has the image. */
export const canRun = (image: string) => (host: HostJson) =>
  host.linked && host.state === 'active' && host.images.includes(image)

export interface Operators {
  awake(): Promise<DesktopJson[]>
  hibernate(id: string, signal: AbortSignal): Promise<OperationJson>
  /** Ends the warm copies on every host. */
  dropWarmCopies(): Promise<void>
}

/** An operator's view of the desktops of all organisations. */
export function operators(baseUrl: string, operatorKey: string): Operators {
  const admin = createAdminClient({ baseUrl, operatorKey, retries: 0 })
  return {
    awake: async () => (await admin.listDesktops({ state: 'awake' })).desktops,
    hibernate: (id, signal) => admin.hibernateDesktop(id, { signal }),
    dropWarmCopies: async () => {
      const { hosts } = await admin.listHosts()
      const linked = hosts.filter(({ linked }) => linked)
      await Promise.all(linked.map(({ id }) => admin.dropWarmCopies(id)))
    },
  }
}
