// The settings, each with a default if one can work. Read once, at the start.
import { copiesKept, vaultName } from '@dormouse/contract'
import { setting, tracingSettings } from '@dormouse/process'
import { z } from 'zod'
import { parseShares, usualText } from './desktops/shares.ts'
import { areProxies } from './http/addresses.ts'
import { isFetchable } from './principals/issuer.ts'

/** Pauses between the attempts of a delivery to a webhook: 15 attempts in three days. */
export const defaultRetrySecs = [
  ...[5, 30, 120, 600, 1_800, 3_600, 7_200, 14_400, 28_800],
  ...[43_200, 43_200, 43_200, 43_200, 28_800],
]

const ms = (env: string, fallbackSecs: number, what: string) =>
  setting(
    env,
    `${what}, in seconds`,
    z.coerce
      .number()
      .positive()
      .default(fallbackSecs)
      .transform((secs) => Math.round(secs * 1_000)),
  )

const whole = (env: string, fallback: number, what: string, min = 1) =>
  setting(env, what, z.coerce.number().int().min(min).default(fallback))

const toList = (text: string): string[] =>
  text
    .split(',')
    .map((one) => one.trim())
    .filter(Boolean)

function keepFrom(text: string, context: z.RefinementCtx) {
  const pairs = toList(text).map((pair) => pair.split('='))
  const parsed = copiesKept.safeParse(Object.fromEntries(pairs.map(([key, value]) => [key, Number(value)])))
  if (parsed.success) return parsed.data
  context.addIssue({ code: 'custom', message: 'must be such as last=3,daily=7,weekly=4' })
  return z.NEVER
}

const tier = (name: string, fallback: string) =>
  setting(
    `DORMOUSE_TIER_${name.toUpperCase()}`,
    `size of the tier ${name}: vCPUs, MiB of memory, GiB of disk`,
    z
      .string()
      .regex(/^[1-9]\d*,[1-9]\d*,[1-9]\d*$/, 'must be vCPUs,MiB,GiB, such as 2,2048,20')
      .default(fallback)
      .transform((text) => {
        const [vcpus, memoryMiB, diskGiB] = text.split(',').map(Number) as [number, number, number]
        return { vcpus, memoryMiB, diskGiB }
      }),
  )

const tierShares = (name: string, vcpus: number) =>
  setting(
    `DORMOUSE_TIER_${name.toUpperCase()}_SHARES`,
    `what a desktop of the tier ${name} gets of its host while others want the same, from its next wake on: cpu (a weight), iops, disk (MiB/s), network (Mbit/s), packets (per second), connections. What is left out keeps its default, 0 is no limit, and off limits nothing`,
    z
      .string()
      .default(usualText(vcpus))
      .transform((text, context) => {
        const parsed = parseShares(text, vcpus)
        if (typeof parsed !== 'string') return parsed
        context.addIssue({ code: 'custom', message: parsed })
        return z.NEVER
      }),
  )

const issuerUrl = (env: string, what: string) =>
  setting(
    env,
    `${what}; https, or http on the loopback interface`,
    z.string().refine(isFetchable, 'must be an https URL, or an http URL on the loopback interface').optional(),
  )

const settings = z.object({
  databaseUrl: setting(
    'DATABASE_URL',
    'URL of the Postgres database, such as postgres://user:password@host:5432/dormouse. To another machine, use TLS: append ?sslmode=verify-full&sslrootcert=/etc/dormouse/postgres-ca.pem, and a host name that the server’s certificate names',
    z.string().regex(/^postgres(ql)?:\/\/./, 'must be a URL that begins with postgres://'),
    { secret: true },
  ),
  host: setting('DORMOUSE_HOST', 'address to listen on', z.string().default('127.0.0.1')),
  port: whole('PORT', 8080, 'port to listen on; 0 takes any free port', 0),
  vcpusPerProcessor: setting(
    'DORMOUSE_VCPUS_PER_PROCESSOR',
    'virtual processors that a host may allocate for each of its own; after lowering it, a wake may fail until other desktops of that host hibernate',
    z.coerce.number().min(0.1).max(1_000).default(32),
  ),
  publicUrl: setting(
    'DORMOUSE_PUBLIC_URL',
    'base URL at which agents and other replicas reach this replica; by default the address on which it listens, if that is a single address',
    z.url().optional(),
  ),
  pageUrl: setting(
    'DORMOUSE_PAGE_URL',
    'base URL at which browsers reach the pages of this service; by default the one of the request',
    z
      .url()
      .transform((url) => new URL(url).origin)
      .optional(),
  ),
  logLevel: setting(
    'DORMOUSE_LOG_LEVEL',
    'lowest level to log: trace, debug, info, warn, error or silent',
    z.enum(['trace', 'debug', 'info', 'warn', 'error', 'silent']).default('info'),
  ),
  databasePool: whole('DORMOUSE_DATABASE_POOL', 16, 'size of the pool of connections to Postgres', 2),
  defaultImage: setting(
    'DORMOUSE_DEFAULT_IMAGE',
    'image of desktops that are created without one',
    z.string().min(1).max(128).default('mini'),
  ),
  defaultIdleTimeoutSecs: whole(
    'DORMOUSE_DEFAULT_IDLE_TIMEOUT_SECS',
    1_800,
    'idle timeout of desktops that are created without one; 0 means never',
    0,
  ),
  idle: setting(
    'DORMOUSE_IDLE',
    'on hibernates desktops after their idle timeouts; off does so for none, and no idle time counts meanwhile',
    z.enum(['on', 'off']).default('on'),
  ),
  idlePerSecond: whole(
    'DORMOUSE_IDLE_PER_SECOND',
    25,
    'hibernations by idle timeouts that begin in a second; the others wait. On each host they take at most a quarter of the operations in flight',
  ),
  maxDesktopsPerOrg: whole(
    'DORMOUSE_MAX_DESKTOPS_PER_ORG',
    10_000,
    'desktops that an organisation may have, not counting destroyed ones; `dormouse admin org limit` sets another number for one organisation',
    0,
  ),
  vault: setting(
    'DORMOUSE_VAULT',
    'name of the vault to which desktops that sleep are copied; each host has its settings in DORMOUSE_AGENT_VAULT_DIR. By default nothing is copied',
    vaultName.optional(),
  ),
  copiesKeep: setting(
    'DORMOUSE_COPIES_KEEP',
    'copies of a desktop that stay, where no policy of its organisation says otherwise: the newest, and the newest of each of the last days and weeks',
    z.string().prefault('last=3,daily=7,weekly=4').transform(keepFrom),
  ),
  copyAfterMs: ms('DORMOUSE_COPY_AFTER_SECS', 10, 'how long a desktop has slept before it is copied'),
  tierSmall: tier('small', '1,512,10'),
  tierDefault: tier('default', '2,2048,20'),
  tierLarge: tier('large', '4,4096,40'),
  tierSmallShares: tierShares('small', 1),
  tierDefaultShares: tierShares('default', 2),
  tierLargeShares: tierShares('large', 4),
  maxDiskGiB: whole(
    'DORMOUSE_MAX_DISK_GIB',
    1_024,
    'GiB to which a desktop’s disk can grow; disks of tiers may be larger',
  ),
  wakeDeadlineMs: ms('DORMOUSE_WAKE_DEADLINE_SECS', 180, 'how long a wake may take; progress extends it'),
  hibernateDeadlineMs: ms(
    'DORMOUSE_HIBERNATE_DEADLINE_SECS',
    300,
    'how long a hibernation may take; progress extends it',
  ),
  moveDeadlineMs: ms(
    'DORMOUSE_MOVE_DEADLINE_SECS',
    600,
    'how long a move to another host may take; progress extends it',
  ),
  restoreDeadlineMs: ms(
    'DORMOUSE_RESTORE_DEADLINE_SECS',
    3_600,
    'how long a restore of a copy may take; progress extends it',
  ),
  moveRelayMibps: whole(
    'DORMOUSE_MOVE_RELAY_MIBPS',
    50,
    'MiB a second that moves may pass through this replica, all together, if two hosts cannot reach each other; 0 for never',
    0,
  ),
  operationsInFlight: whole(
    'DORMOUSE_OPERATIONS_IN_FLIGHT',
    512,
    'wakes and hibernations in flight in all; the others wait. Destroys have as many slots of their own',
  ),
  operationsPerHost: setting(
    'DORMOUSE_OPERATIONS_PER_HOST',
    'wakes and hibernations in flight on one host; by default twice as many as it boots, restores and saves at once. Destroys have as many slots of their own',
    z.coerce.number().int().min(1).optional(),
  ),
  queueLimitMs: ms(
    'DORMOUSE_QUEUE_LIMIT_SECS',
    1_800,
    'how long an operation may wait for a free slot before it fails, which takes none of its deadline',
  ),
  destroyDeadlineMs: ms('DORMOUSE_DESTROY_DEADLINE_SECS', 120, 'how long a destroy may take'),
  quarantineMs: setting(
    'DORMOUSE_QUARANTINE_SECS',
    'how long new desktops avoid a host on which the wakes of three desktops in a row have failed by its own fault, in seconds; 0 for never',
    z.coerce
      .number()
      .min(0)
      .default(600)
      .transform((secs) => Math.round(secs * 1_000)),
  ),
  destroyGraceMs: ms(
    'DORMOUSE_DESTROY_GRACE_SECS',
    5,
    'how long a destroy waits for an unreachable host before its cleanup is deferred',
  ),
  waitCapMs: setting(
    'DORMOUSE_WAIT_CAP_SECS',
    'how long `?wait=true` may delay a response, in seconds; at most 120',
    z.coerce
      .number()
      .positive()
      .max(120)
      .default(120)
      .transform((secs) => Math.round(secs * 1_000)),
  ),
  leadershipLeaseMs: ms('DORMOUSE_LEASE_SECS', 3, 'duration of the leadership lease'),
  heartbeatMs: ms('DORMOUSE_HEARTBEAT_SECS', 5, 'how often an agent sends a heartbeat'),
  keepRecordsDays: whole(
    'DORMOUSE_KEEP_RECORDS_DAYS',
    90,
    'days for which settled operations and superseded generations are kept whole, and batches of input with their keys (of one desktop the newest 10,000); the keys and outcomes of operations, and usage, are kept for good',
  ),
  keepEventsDays: whole(
    'DORMOUSE_KEEP_EVENTS_DAYS',
    7,
    'days for which the log of events is kept: a client that was disconnected for longer has to read the present state',
  ),
  keepAuditDays: whole('DORMOUSE_KEEP_AUDIT_DAYS', 400, 'days for which the audit log is kept'),
  bodyStallMs: ms(
    'DORMOUSE_BODY_STALL_SECS',
    60,
    'abort a request body or a response that makes no progress for this long',
  ),
  rateLimitPerSecond: whole(
    'DORMOUSE_RATE_LIMIT_PER_SECOND',
    1_000,
    'requests per second with one credential, per replica',
  ),
  rateLimitStrangersPerSecond: whole(
    'DORMOUSE_RATE_LIMIT_STRANGERS_PER_SECOND',
    500,
    'requests per second from one address without a valid credential, per replica. Above it the response is 429, before anything is looked up. An IPv6 address counts as its /64',
  ),
  maxConnectionsPerAddress: whole(
    'DORMOUSE_MAX_CONNECTIONS_PER_ADDRESS',
    512,
    'connections of one address without a valid credential; above it the oldest is closed with 429',
  ),
  maxConnectionsPerCredential: whole(
    'DORMOUSE_MAX_CONNECTIONS_PER_CREDENTIAL',
    1_024,
    'requests in flight and open screens of one credential, per replica; above it the response is 429',
  ),
  maxConnections: whole(
    'DORMOUSE_MAX_CONNECTIONS',
    8_192,
    'connections in all, per replica; above it the oldest without a valid credential is closed with 429',
  ),
  maxEventStreamsPerOrg: whole(
    'DORMOUSE_MAX_EVENT_STREAMS_PER_ORG',
    1_000,
    'open streams of events of one organisation, per replica; above it the response is 429. Each also counts as a request in flight of its credential',
  ),
  maxHeldMiBPerAddress: whole(
    'DORMOUSE_MAX_HELD_MIB_PER_ADDRESS',
    32,
    'MiB of incomplete request bodies and unread responses of one address without a valid credential; above it the response is 429',
  ),
  maxHeldMiBPerCredential: whole(
    'DORMOUSE_MAX_HELD_MIB_PER_CREDENTIAL',
    64,
    'MiB of incomplete request bodies and unread responses of one credential, per replica; above it the response is 429',
  ),
  maxHeldMiB: whole(
    'DORMOUSE_MAX_HELD_MIB',
    256,
    'MiB of incomplete request bodies and unread responses in all, per replica; above it the client that holds most is disconnected',
  ),
  trustedProxies: setting(
    'DORMOUSE_TRUSTED_PROXIES',
    'addresses and ranges of the proxies in front of this service, separated by commas, such as 10.0.0.0/8. Their X-Forwarded-For, -Host and -Proto headers are trusted. Without it, all clients behind a proxy count as one address',
    z
      .string()
      .default('')
      .transform(toList)
      .refine(areProxies, 'must be IP addresses or ranges, none of which covers every address'),
  ),
  oidcIssuer: issuerUrl(
    'OIDC_ISSUER',
    'issuer of access tokens, exactly as in their `iss`; without it no JWT is accepted. The claims `dormouse_can` (rights, as of a key) and `dormouse_select` (a selector of labels) limit a token',
  ),
  oidcJwksUrl: issuerUrl('OIDC_JWKS_URL', 'URL of the issuer’s keys; by default the one in its discovery document'),
  oidcAudience: setting(
    'OIDC_AUDIENCE',
    'audience that access tokens must contain in their `aud`',
    z.string().min(1).optional(),
  ),
  oidcOrgClaim: setting(
    'OIDC_ORG_CLAIM',
    'claim of an access token that contains the id of its organisation',
    z.string().min(1).default('org_id'),
  ),
  maxWebhooksPerOrg: whole('DORMOUSE_MAX_WEBHOOKS_PER_ORG', 20, 'webhooks that an organisation may have', 0),
  webhookAllowPrivate: setting(
    'DORMOUSE_WEBHOOK_ALLOW_PRIVATE',
    'true: webhooks may use http, and private, loopback and link-local addresses. A customer can then make this service send requests into your network',
    z.stringbool({ truthy: ['true'], falsy: ['false'], error: 'must be true or false' }).default(false),
  ),
  webhookRequestsInFlight: whole(
    'DORMOUSE_WEBHOOK_REQUESTS_IN_FLIGHT',
    64,
    'requests to webhooks in flight in all; at most 16 of one organisation and 4 of one webhook',
    4,
  ),
  webhookRetryMs: setting(
    'DORMOUSE_WEBHOOK_RETRY_SECS',
    'pauses between the attempts of a delivery, in seconds, separated by commas. After the last attempt, a webhook that has accepted nothing meanwhile is disabled',
    z
      .string()
      .regex(/^\d+(\.\d+)?(,\d+(\.\d+)?){0,18}$/, 'must be up to 19 numbers of seconds, separated by commas')
      .default(defaultRetrySecs.join(','))
      .transform((text) => text.split(',').map((secs) => Math.round(Number(secs) * 1_000))),
  ),
  keepDeliveriesDays: whole(
    'DORMOUSE_KEEP_DELIVERIES_DAYS',
    7,
    'days for which deliveries to webhooks are kept, with the outcomes of their attempts',
    4,
  ),
  ...tracingSettings('DORMOUSE_'),
  failpoints: setting('DORMOUSE_FAILPOINTS', 'for tests: failpoints to arm', z.string().default('')),
})

const everyAddress = new Set(['', '*', '0.0.0.0', '::', '[::]'])

/**
 * Without an audience, every token of the issuer would be accepted, whatever service it is for. A replica that listens on every
 * address would tell agents to connect to 0.0.0.0, which is their own machine.
 */
export const configSchema = settings.superRefine((given, { addIssue }) => {
  const { oidcIssuer, oidcAudience, oidcJwksUrl, host, publicUrl } = given
  const missing = (path: string) => addIssue({ code: 'custom', path: [path], message: 'is required, too' })
  if (everyAddress.has(host) && !publicUrl) missing('publicUrl')
  if (oidcIssuer && !oidcAudience) missing('oidcAudience')
  if (!oidcIssuer && (oidcAudience || oidcJwksUrl)) missing('oidcIssuer')
})

export type Config = z.output<typeof configSchema>
