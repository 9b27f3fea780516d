// One typed call per route of /admin/v1. Operator keys work only here, and API keys only on /v1.
import type {
  AddImageBody,
  AdminEventJson,
  AdminOperationJson,
  AlarmJson,
  AuditEntryJson,
  ChangeOperatorKeyBody,
  ChangeOrgBody,
  CreatedKeyJson,
  CreatedOperatorKeyJson,
  CreateInviteBody,
  CreateKeyBody,
  CreateOperatorKeyBody,
  CreateOrgBody,
  DeferredJson,
  DesktopJson,
  DesktopState,
  DrainBody,
  DrainJson,
  DroppedJson,
  HostJson,
  ImageJson,
  InviteJson,
  KeyJson,
  ListedInviteJson,
  MoveBody,
  OperationJson,
  OperatorKeyJson,
  OrgJson,
  OrgQuotasJson,
  OrgsJson,
  QuotaJson,
  RemovalJson,
  RemoveHostBody,
  ReplicaJson,
  ReturnedHostJson,
  SetQuotaBody,
  TrustedHostJson,
  UpgradeBody,
  UpgradeJson,
  UpgradePlanJson,
  WakeOnBody,
} from '@dormouse/contract'
import { readJson, sendJson } from './bodies.ts'
import { newIdempotencyKey } from './client.ts'
import { type AdminEventsOptions, followEvents } from './events.ts'
import { type CallOptions, Http, type HttpCall, type HttpOptions, httpNames } from './http.ts'
import { pollOperation, type WaitOptions, waitCallTimeoutMs } from './operations.ts'
import { type NamesOf, refuseUnknown } from './options.ts'
import { nextCursor } from './pages.ts'
import { path } from './path.ts'

export interface AdminClientOptions extends HttpOptions {
  /** `svc_op_…` */
  operatorKey: string
}

export interface AuditQuery {
  /** Only entries about this desktop, host, organisation or key. */
  subject?: string
  /** Only entries by this actor: as in the entries, or the id or the name of a key. */
  actor?: string
  /** Only entries of this action, such as `host.cordon`. */
  action?: string
  /** RFC 3339: from then on, and before then. */
  since?: string
  until?: string
  limit?: number
  cursor?: string
}

export interface AuditPage {
  entries: AuditEntryJson[]
  next?: string
}

type Again = <T>(call: CallOptions, route: string, body?: object) => Promise<T>

/** Images: what their names mean, and where hosts fetch them. All changes are idempotent. */
const imageCalls = (again: Again, get: Get) => ({
  /** Registers a version. A host reads its manifest, so one that can must be linked. */
  addImage: (body: AddImageBody, call: CallOptions = {}) => again<ImageJson>(call, '/admin/v1/images', body),
  listImages: (call: CallOptions = {}) => get<{ images: ImageJson[] }>(call, '/admin/v1/images'),
  /** By `name@version`. */
  getImage: (image: string, call: CallOptions = {}) => get<ImageJson>(call, path`/admin/v1/images/${image}`),
  /** From now on the name means this version. */
  useImage: (image: string, call: CallOptions = {}) => again<ImageJson>(call, path`/admin/v1/images/${image}/use`),
  /** No new desktop is made from this version. */
  retireImage: (image: string, call: CallOptions = {}) =>
    again<ImageJson>(call, path`/admin/v1/images/${image}/retire`),
})

const releases = (again: Again, get: Get) => ({
  /** The control planes that run, with their releases. */
  listReplicas: (call: CallOptions = {}) => get<{ replicas: ReplicaJson[] }>(call, '/admin/v1/replicas'),
  /** What to upgrade next to run this release, or the newest one that runs, and what would not work. */
  planUpgrade: (version?: string, call: CallOptions = {}) =>
    get<UpgradePlanJson>(call, '/admin/v1/upgrades/plan', { version }),
  /**
   * Begins to upgrade the agents of hosts, a batch at a time, and returns at once. Idempotent: with the same parameters it
   * returns the upgrade in progress.
   */
  upgradeHosts: (body: UpgradeBody = {}, call: CallOptions = {}) =>
    again<UpgradeJson>(call, '/admin/v1/upgrades', body),
  getUpgrade: (id: string, call: CallOptions = {}) => get<UpgradeJson>(call, path`/admin/v1/upgrades/${id}`),
  /** The newest ones, the latest first. */
  listUpgrades: (call: CallOptions = {}) => get<{ upgrades: UpgradeJson[] }>(call, '/admin/v1/upgrades'),
  /** No further host begins; those that have begun go on. Idempotent. */
  cancelUpgrade: (id: string, call: CallOptions = {}) =>
    again<UpgradeJson>(call, path`/admin/v1/upgrades/${id}/cancel`),
})

/** Idempotent changes of a host. */
const hostChanges = (again: Again) => ({
  /**
   * Removes a host for good, unless more than `yes_lose` desktops would be lost. Idempotent, so it is retried like a
   * request with a key.
   */
  removeHost: (host: string, body: RemoveHostBody, call: CallOptions = {}) =>
    again<RemovalJson>(call, path`/admin/v1/hosts/${host}/removal`, body),
  /**
   * Declares an unreachable host lost, unless more than `yes_lose` desktops would fail with it. Unlike a removed host, it may
   * be returned. Idempotent.
   */
  loseHost: (host: string, body: RemoveHostBody, call: CallOptions = {}) =>
    again<RemovalJson>(call, path`/admin/v1/hosts/${host}/loss`, body),
  /** Takes a lost host that is linked again back into service, with the desktops that failed with it. Idempotent. */
  returnHost: (host: string, call: CallOptions = {}) =>
    again<ReturnedHostJson>(call, path`/admin/v1/hosts/${host}/return`),
  /** Places no new desktops on a host, by name or id, until `uncordonHost`. Those on it go on. Idempotent. */
  cordonHost: (host: string, call: CallOptions = {}) => again<HostJson>(call, path`/admin/v1/hosts/${host}/cordon`),
  /**
   * Begins to drain a host, which is cordoned from then on, and returns at once; `dry_run` returns the plan. Idempotent: with
   * the same parameters it returns the drain in progress.
   */
  drainHost: (host: string, body: DrainBody = {}, call: CallOptions = {}) =>
    again<DrainJson>(call, path`/admin/v1/hosts/${host}/drain`, body),
  /** Ends a drain: nothing more begins, and moves that are not decided are undone. Idempotent. */
  cancelDrain: (id: string, call: CallOptions = {}) => again<DrainJson>(call, path`/admin/v1/drains/${id}/cancel`),
  /** Ends the paused copies that a host keeps of sleeping desktops; those sleep on. Idempotent. */
  dropWarmCopies: (host: string, call: CallOptions = {}) =>
    again<DroppedJson>(call, path`/admin/v1/hosts/${host}/drop-warm-copies`),
  /** Replaces the key of a linked host, which links again with the new one. Its desktops are not touched. */
  rotateHostKey: (host: string, call: CallOptions = {}) =>
    again<{ host_id: string }>(call, path`/admin/v1/hosts/${host}/rotate-key`),
  /** Ends a cordon. Idempotent. */
  uncordonHost: (host: string, call: CallOptions = {}) => again<HostJson>(call, path`/admin/v1/hosts/${host}/uncordon`),
})

/** The keys of operators, and those that read metrics. */
const operatorKeyCalls = (http: Http) => ({
  /** The only response that contains the key itself. */
  createOperatorKey: (body: CreateOperatorKeyBody, call: CallOptions = {}) =>
    http.json<CreatedOperatorKeyJson>({ ...call, method: 'POST', path: '/admin/v1/operator-keys', ...sendJson(body) }),
  listOperatorKeys: (call: CallOptions = {}) =>
    http.json<{ operator_keys: OperatorKeyJson[] }>({ ...call, method: 'GET', path: '/admin/v1/operator-keys' }),
  /** Renames a key, or lets it expire. */
  changeOperatorKey: (id: string, body: ChangeOperatorKeyBody, call: CallOptions = {}) =>
    http.json<OperatorKeyJson>({
      ...call,
      method: 'PATCH',
      path: path`/admin/v1/operator-keys/${id}`,
      ...sendJson(body),
    }),
  /** The key stops working at once. */
  revokeOperatorKey: (id: string, call: CallOptions = {}) =>
    http.json<void>({ ...call, method: 'DELETE', path: path`/admin/v1/operator-keys/${id}` }),
})

type Get = <T>(call: CallOptions, route: string, query?: HttpCall['query']) => Promise<T>

/** Quotas of an organisation's desktops by their labels. All changes are idempotent. */
const quotaCalls = (http: Http, get: Get) => ({
  listQuotas: (orgId: string, call: CallOptions = {}) => get<OrgQuotasJson>(call, path`/admin/v1/orgs/${orgId}/quotas`),
  /** Limits how many desktops match a selector; a quota of that name is replaced. Desktops that exist stay. */
  setQuota: (orgId: string, name: string, body: SetQuotaBody, call: CallOptions = {}) =>
    http.json<QuotaJson>({
      ...call,
      method: 'PUT',
      path: path`/admin/v1/orgs/${orgId}/quotas/${name}`,
      ...sendJson(body),
    }),
  removeQuota: (orgId: string, name: string, call: CallOptions = {}) =>
    http.json<void>({ ...call, method: 'DELETE', path: path`/admin/v1/orgs/${orgId}/quotas/${name}` }),
})

const hostsAndImages = (again: Again, get: Get) => ({ ...hostChanges(again), ...imageCalls(again, get) })
/** What operators do to desktops of any organisation. */
const desktopChanges = (http: Http) => {
  const read = (id: string, { wait, ...call }: CallOptions & { wait?: boolean } = {}) =>
    http.json<AdminOperationJson>({ ...call, method: 'GET', path: path`/admin/v1/operations/${id}`, query: { wait } })
  const end = (id: string, verb: string, { wait = true, ...call }: CallOptions & { wait?: boolean }) =>
    http.json<OperationJson>({
      ...(wait && { timeoutMs: waitCallTimeoutMs }),
      ...call,
      method: 'POST',
      path: path`/admin/v1/desktops/${id}/${verb}`,
      query: wait ? { wait } : {},
      ...sendJson({}),
    })
  return {
    /** An operation, with the original error of a failure and when its steps began. With `wait`, it returns once settled, or after 120 s. */
    getOperation: read,
    /** Waits for an operation to settle. Throws `OperationFailedError` if it fails; its `operation` has the cause. */
    waitForOperation: (id: string, options: WaitOptions = {}) =>
      pollOperation(http, (call) => read(id, call), options) as Promise<AdminOperationJson>,
    getDesktop: (id: string, call: CallOptions = {}) =>
      http.json<DesktopJson>({ ...call, method: 'GET', path: path`/admin/v1/desktops/${id}` }),
    /** Hibernates a desktop, and waits up to 120 s for it, unless `wait` is false. */
    hibernateDesktop: (id: string, call: CallOptions & { wait?: boolean } = {}) => end(id, 'hibernate', call),
    /** Destroys a desktop with all its data, and waits up to 120 s for it, unless `wait` is false. */
    destroyDesktop: (id: string, call: CallOptions & { wait?: boolean } = {}) => end(id, 'destroy', call),
    /** Begins the first wake of a desktop on this host, cordoned or not; no other one is tried. */
    wakeDesktop: (id: string, body: WakeOnBody, call: CallOptions = {}) =>
      http.json<OperationJson>({
        ...call,
        method: 'POST',
        path: path`/admin/v1/desktops/${id}/wake`,
        ...sendJson(body),
      }),
    /**
     * Begins to move a desktop to another host: awake with its memory, asleep as files. Returns the same move if it is in
     * progress, so it is retried like a request with a key.
     */
    moveDesktop: (id: string, body: MoveBody = {}, call: CallOptions = {}) =>
      http.json<OperationJson>({
        ...call,
        method: 'POST',
        path: path`/admin/v1/desktops/${id}/move`,
        ...sendJson(body, { 'idempotency-key': newIdempotencyKey() }),
      }),
  }
}

type Post = <T>(call: CallOptions, route: string, body: object) => Promise<T>

/** Organisations, their keys, and the invitations of hosts. */
const orgsAndKeys = (http: Http, post: Post, again: Again, get: Get) => ({
  createOrg: (body: CreateOrgBody, call: CallOptions = {}) => post<OrgJson>(call, '/admin/v1/orgs', body),
  listOrgs: (call: CallOptions = {}) => get<OrgsJson>(call, '/admin/v1/orgs'),
  /** Limits how many desktops an organisation may have; null applies the service's default. */
  changeOrg: (id: string, body: ChangeOrgBody, call: CallOptions = {}) =>
    http.json<OrgJson>({ ...call, method: 'PATCH', path: path`/admin/v1/orgs/${id}`, ...sendJson(body) }),
  /** Nothing of the organisation wakes from now on, and what is awake hibernates. Idempotent. */
  suspendOrg: (id: string, call: CallOptions = {}) => again<OrgJson>(call, path`/admin/v1/orgs/${id}/suspend`),
  resumeOrg: (id: string, call: CallOptions = {}) => again<OrgJson>(call, path`/admin/v1/orgs/${id}/resume`),
  /** The only response that contains the key itself. */
  createKey: (body: CreateKeyBody, call: CallOptions = {}) => post<CreatedKeyJson>(call, '/admin/v1/keys', body),
  listKeys: (orgId: string, call: CallOptions = {}) =>
    get<{ keys: KeyJson[] }>(call, '/admin/v1/keys', { org_id: orgId }),
  /** The key stops working at once. */
  revokeKey: async (id: string, call: CallOptions = {}): Promise<void> => {
    await http.json<void>({ ...call, method: 'DELETE', path: path`/admin/v1/keys/${id}` })
  },
  /** A one-time token with which a host enrols. */
  inviteHost: (body: CreateInviteBody = {}, call: CallOptions = {}) =>
    post<InviteJson>(call, '/admin/v1/hosts/invites', body),
  /** Invitations that are kept, newest first, without their tokens. */
  listInvites: (call: CallOptions = {}) => get<{ invites: ListedInviteJson[] }>(call, '/admin/v1/hosts/invites'),
  /** Nobody enrols with it any more. */
  revokeInvite: (id: string, call: CallOptions = {}) =>
    http.json<void>({ ...call, method: 'DELETE', path: path`/admin/v1/hosts/invites/${id}` }),
})

/** The typed client of /admin/v1. Creates are never retried: these routes take no idempotency key. */
export function createAdminClient(options: AdminClientOptions) {
  options ??= {} as AdminClientOptions
  const names: NamesOf<AdminClientOptions> = { ...httpNames, operatorKey: true }
  refuseUnknown('createAdminClient', options, names)
  const http = new Http(options, options.operatorKey)
  const get = <T>(call: CallOptions, route: string, query?: HttpCall['query']) =>
    http.json<T>({ ...call, method: 'GET', path: route, query })
  const post = <T>(call: CallOptions, route: string, body: object) =>
    http.json<T>({ ...call, method: 'POST', path: route, ...sendJson(body) })
  /** Calls an idempotent route: it is retried like a request with a key. */
  const again = <T>(call: CallOptions, route: string, body = {}) =>
    http.json<T>({
      ...call,
      method: 'POST',
      path: route,
      ...sendJson(body, { 'idempotency-key': newIdempotencyKey() }),
    })

  return {
    ...orgsAndKeys(http, post, again, get),
    ...operatorKeyCalls(http),
    ...quotaCalls(http, get),
    /** What changes in all organisations and of all hosts, each event once: an iterator that reconnects. */
    events: (given: AdminEventsOptions = {}) => followEvents<AdminEventJson>(http, '/admin/v1/events', given),
    /** One page of the audit log, newest first; `next` is the cursor of the next page. */
    listAudit: async (query: AuditQuery = {}, call: CallOptions = {}): Promise<AuditPage> =>
      http.run({ ...call, method: 'GET', path: '/admin/v1/audit', query: { ...query } }, async (response) => ({
        entries: (await readJson<{ entries: AuditEntryJson[] }>(response)).entries,
        next: nextCursor(response.headers.get('link')),
      })),
    /** Commands that hosts could not carry out yet and that the service retries, oldest first. */
    listDeferred: (call: CallOptions = {}) =>
      get<{ deferred_commands: DeferredJson[] }>(call, '/admin/v1/deferred-commands'),
    /** What is wrong now, the oldest first, with what to do about it. */
    listAlarms: (call: CallOptions = {}) => get<{ alarms: AlarmJson[] }>(call, '/admin/v1/alarms'),
    /** Lists the desktops that removing the host, by name or id, would lose: those whose only disk it has. */
    previewRemoval: (host: string, call: CallOptions = {}) =>
      get<RemovalJson>(call, path`/admin/v1/hosts/${host}/removal`),
    ...hostsAndImages(again, get),
    ...releases(again, get),
    /** Confirms the epoch that a withheld host reported, so that it gets commands again. By name or id. */
    trustHost: (host: string, call: CallOptions = {}) =>
      post<TrustedHostJson>(call, path`/admin/v1/hosts/${host}/trust`, {}),
    getDrain: (id: string, call: CallOptions = {}) => get<DrainJson>(call, path`/admin/v1/drains/${id}`),
    /** Desktops of all organisations or of one host, oldest first; 1,000 unless `limit` is given. */
    listDesktops: (
      query: { state?: DesktopState | readonly DesktopState[]; host_id?: string; org_id?: string; limit?: number } = {},
      call: CallOptions = {},
    ) => get<{ desktops: DesktopJson[] }>(call, '/admin/v1/desktops', query),
    ...desktopChanges(http),
    listHosts: (call: CallOptions = {}) => get<{ hosts: HostJson[] }>(call, '/admin/v1/hosts'),
  }
}

export type AdminClient = ReturnType<typeof createAdminClient>
