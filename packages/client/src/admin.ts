// One typed call per route of /admin/v1, for operators: their keys open no customer's route, and the other way round.
import type {
  AdminOperationJson,
  AuditEntryJson,
  ChangeOrgBody,
  CreatedKeyJson,
  DeferredJson,
  HostJson,
  InviteJson,
  KeyJson,
  OrgJson,
  OrgsJson,
  RemovalJson,
  TrustedHostJson,
} from '@dormouse/contract'
import { readJson, sendJson } from './bodies.ts'
import { newIdempotencyKey, nextCursor } from './client.ts'
import { type CallOptions, Http, type HttpOptions } from './http.ts'
import { path } from './path.ts'

export interface AdminClientOptions extends HttpOptions {
  /** `svc_op_…` */
  operatorKey: string
}

export interface AuditQuery {
  /** What the entries tell of: the id of a desktop. */
  subject?: string
  limit?: number
  cursor?: string
}

export interface AuditPage {
  entries: AuditEntryJson[]
  next?: string
}

/** The typed client of /admin/v1. What creates is sent once: these routes take no idempotency key. */
export function createAdminClient(options: AdminClientOptions) {
  const http = new Http(options, options.operatorKey)
  const get = <T>(call: CallOptions, route: string, query?: Record<string, string>) =>
    http.json<T>({ ...call, method: 'GET', path: route, query })
  const post = <T>(call: CallOptions, route: string, body: object) =>
    http.json<T>({ ...call, method: 'POST', path: route, ...sendJson(body) })

  return {
    createOrg: (body: { name: string }, call: CallOptions = {}) => post<OrgJson>(call, '/admin/v1/orgs', body),
    listOrgs: (call: CallOptions = {}) => get<OrgsJson>(call, '/admin/v1/orgs'),
    /** Sets how many desktops an organisation may have; null leaves it to the service's settings. */
    changeOrg: (id: string, body: ChangeOrgBody, call: CallOptions = {}) =>
      http.json<OrgJson>({ ...call, method: 'PATCH', path: path`/admin/v1/orgs/${id}`, ...sendJson(body) }),
    /** The one answer that shows the key itself. */
    createKey: (body: { org_id: string; name?: string | null }, call: CallOptions = {}) =>
      post<CreatedKeyJson>(call, '/admin/v1/keys', body),
    listKeys: (orgId: string, call: CallOptions = {}) =>
      get<{ keys: KeyJson[] }>(call, '/admin/v1/keys', { org_id: orgId }),
    /** The key stops working at once. */
    revokeKey: async (id: string, call: CallOptions = {}): Promise<void> => {
      await http.json<void>({ ...call, method: 'DELETE', path: path`/admin/v1/keys/${id}` })
    },
    /** A one-time token with which a host enrols. */
    inviteHost: (body: { name?: string | null; valid_secs?: number | null } = {}, call: CallOptions = {}) =>
      post<InviteJson>(call, '/admin/v1/hosts/invites', body),
    /** What was done to somebody else's things and by whom, newest first: a page; `next` is the cursor of the one after it. */
    listAudit: async (query: AuditQuery = {}, call: CallOptions = {}): Promise<AuditPage> =>
      http.run({ ...call, method: 'GET', path: '/admin/v1/audit', query: { ...query } }, async (response) => ({
        entries: (await readJson<{ entries: AuditEntryJson[] }>(response)).entries,
        next: nextCursor(response.headers.get('link')),
      })),
    /** What hosts could not carry out and are asked again for, oldest first. */
    listDeferred: (call: CallOptions = {}) =>
      get<{ deferred_commands: DeferredJson[] }>(call, '/admin/v1/deferred-commands'),
    /** What it would cost to remove a host, by name or id: the desktops that have their only disk there. */
    previewRemoval: (host: string, call: CallOptions = {}) =>
      get<RemovalJson>(call, path`/admin/v1/hosts/${host}/removal`),
    /**
     * Removes a host for good, unless more desktops than that would be lost with it. Twice is the same as once: it is sent
     * again, as anything with a key, until the replica that leads has it.
     */
    removeHost: (host: string, body: { yes_lose: number }, call: CallOptions = {}) =>
      http.json<RemovalJson>({
        ...call,
        method: 'POST',
        path: path`/admin/v1/hosts/${host}/removal`,
        ...sendJson(body, { 'idempotency-key': newIdempotencyKey() }),
      }),
    /** Lets a host have commands again whose word about the epoch was not believed. By its id or its name. */
    trustHost: (host: string, call: CallOptions = {}) =>
      post<TrustedHostJson>(call, path`/admin/v1/hosts/${host}/trust`, {}),
    /** An operation of whatever organisation, with the cause of its failure and when its steps began. */
    getOperation: (id: string, call: CallOptions = {}) =>
      get<AdminOperationJson>(call, path`/admin/v1/operations/${id}`),
    listHosts: (call: CallOptions = {}) => get<{ hosts: HostJson[] }>(call, '/admin/v1/hosts'),
  }
}

export type AdminClient = ReturnType<typeof createAdminClient>
