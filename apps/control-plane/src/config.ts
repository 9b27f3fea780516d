// What an operator may set, each with a default that works where one can. Read once, at the door.
import { setting } from '@dormouse/process'
import { z } from 'zod'
import { areProxies } from './http/addresses.ts'
import { isFetchable } from './principals/issuer.ts'

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

const issuerUrl = (env: string, what: string) =>
  setting(
    env,
    `${what}; https, or http on this machine alone`,
    z.string().refine(isFetchable, 'must be such a URL').optional(),
  )

const settings = z.object({
  databaseUrl: setting(
    'DATABASE_URL',
    'Postgres, such as postgres://user:password@host:5432/dormouse',
    z.string().min(1),
    { secret: true },
  ),
  host: setting('DORMOUSE_HOST', 'address to listen on', z.string().default('127.0.0.1')),
  port: whole('PORT', 8080, 'port to listen on; 0 is any free one', 0),
  vcpusPerProcessor: setting(
    'DORMOUSE_VCPUS_PER_PROCESSOR',
    'virtual processors that a host lends out for each of its own; if you lower it, a wake may fail until other desktops of that host sleep',
    z.coerce.number().min(0.1).max(1_000).default(32),
  ),
  publicUrl: setting(
    'DORMOUSE_PUBLIC_URL',
    'base URL at which agents and other replicas reach this one; by default where it listens, if that is one address',
    z.url().optional(),
  ),
  pageUrl: setting(
    'DORMOUSE_PAGE_URL',
    'base URL at which browsers reach the pages of this service; by default the one that the caller used',
    z
      .url()
      .transform((url) => new URL(url).origin)
      .optional(),
  ),
  logLevel: setting(
    'DORMOUSE_LOG_LEVEL',
    'least important line to log: trace, debug, info, warn, error or silent',
    z.enum(['trace', 'debug', 'info', 'warn', 'error', 'silent']).default('info'),
  ),
  databasePool: whole('DORMOUSE_DATABASE_POOL', 16, 'connections to Postgres', 2),
  defaultImage: setting(
    'DORMOUSE_DEFAULT_IMAGE',
    'image of a desktop that names none',
    z.string().min(1).max(128).default('mini'),
  ),
  defaultIdleTimeoutSecs: whole(
    'DORMOUSE_DEFAULT_IDLE_TIMEOUT_SECS',
    1_800,
    'idle time-out kept with a desktop that names none, 0 is never; nothing hibernates by itself yet',
    0,
  ),
  maxDesktopsPerOrg: whole(
    'DORMOUSE_MAX_DESKTOPS_PER_ORG',
    10_000,
    'desktops that an organisation may have, destroyed ones not counted; `dormouse admin org limit` sets another number for one organisation',
    0,
  ),
  tierSmall: tier('small', '1,512,10'),
  tierDefault: tier('default', '2,2048,20'),
  tierLarge: tier('large', '4,4096,40'),
  wakeDeadlineMs: ms('DORMOUSE_WAKE_DEADLINE_SECS', 180, 'how long a wake may take; progress puts it off'),
  hibernateDeadlineMs: ms(
    'DORMOUSE_HIBERNATE_DEADLINE_SECS',
    300,
    'how long a hibernation may take; progress puts it off',
  ),
  destroyDeadlineMs: ms('DORMOUSE_DESTROY_DEADLINE_SECS', 120, 'how long a destroy may take'),
  destroyGraceMs: ms(
    'DORMOUSE_DESTROY_GRACE_SECS',
    5,
    'how long a destroy waits for a host out of reach before its cleanup is deferred',
  ),
  waitCapMs: setting(
    'DORMOUSE_WAIT_CAP_SECS',
    'how long `?wait=true` may hold an answer, in seconds; the contract’s 120 at most',
    z.coerce
      .number()
      .positive()
      .max(120)
      .default(120)
      .transform((secs) => Math.round(secs * 1_000)),
  ),
  leadershipLeaseMs: ms('DORMOUSE_LEASE_SECS', 3, 'leadership lease of a replica'),
  heartbeatMs: ms('DORMOUSE_HEARTBEAT_SECS', 5, 'how often an agent says that it lives'),
  hostLeaseMs: ms(
    'DORMOUSE_HOST_LEASE_SECS',
    60,
    'how long a host may be silent before what it runs on shared storage must stop',
  ),
  keepRecordsDays: whole(
    'DORMOUSE_KEEP_RECORDS_DAYS',
    90,
    'days for which settled operations and superseded generations are kept whole; what was promised is kept for good',
  ),
  keepAuditDays: whole('DORMOUSE_KEEP_AUDIT_DAYS', 400, 'days for which the audit log is kept'),
  bodyStallMs: ms(
    'DORMOUSE_BODY_STALL_SECS',
    60,
    'how long not a byte of a request’s body, or of an answer, may move before it is given up',
  ),
  rateLimitPerSecond: whole(
    'DORMOUSE_RATE_LIMIT_PER_SECOND',
    1_000,
    'requests a second of one credential, per replica',
  ),
  rateLimitStrangersPerSecond: whole(
    'DORMOUSE_RATE_LIMIT_STRANGERS_PER_SECOND',
    500,
    'requests a second of one address without a good credential, per replica; beyond, 429 before anything is looked up. An IPv6 address counts as its /64',
  ),
  maxConnectionsPerAddress: whole(
    'DORMOUSE_MAX_CONNECTIONS_PER_ADDRESS',
    512,
    'connections of one address on which no good credential was shown; beyond, the oldest is told 429 and closed',
  ),
  maxConnectionsPerCredential: whole(
    'DORMOUSE_MAX_CONNECTIONS_PER_CREDENTIAL',
    1_024,
    'requests under way and open screens of one credential, per replica; beyond, 429',
  ),
  maxConnections: whole(
    'DORMOUSE_MAX_CONNECTIONS',
    8_192,
    'connections in all, per replica; beyond, the oldest without a good credential is told 429 and closed',
  ),
  maxHeldMiBPerAddress: whole(
    'DORMOUSE_MAX_HELD_MIB_PER_ADDRESS',
    32,
    'MiB of unfinished bodies and unread answers of one address without a good credential; beyond, 429',
  ),
  maxHeldMiBPerCredential: whole(
    'DORMOUSE_MAX_HELD_MIB_PER_CREDENTIAL',
    64,
    'MiB of unfinished bodies and unread answers of one credential, per replica; beyond, 429',
  ),
  maxHeldMiB: whole(
    'DORMOUSE_MAX_HELD_MIB',
    256,
    'MiB of unfinished bodies and unread answers in all, per replica; beyond, whoever holds most is cut off',
  ),
  trustedProxies: setting(
    'DORMOUSE_TRUSTED_PROXIES',
    'addresses and ranges of the proxies in front of this service, separated by commas, such as 10.0.0.0/8: what they say in X-Forwarded-For, -Host and -Proto is believed. Without it, all callers behind a proxy count as one address',
    z
      .string()
      .default('')
      .transform(toList)
      .refine(areProxies, 'must be IP addresses or ranges, and none may be everybody'),
  ),
  oidcIssuer: issuerUrl('OIDC_ISSUER', 'issuer of access tokens, exactly as in their `iss`; without it no JWT is good'),
  oidcJwksUrl: issuerUrl('OIDC_JWKS_URL', 'where the issuer’s keys are; by default its discovery document is asked'),
  oidcAudience: setting('OIDC_AUDIENCE', 'what access tokens must name in their `aud`', z.string().min(1).optional()),
  oidcOrgClaim: setting(
    'OIDC_ORG_CLAIM',
    'claim of an access token that holds the id of its organisation',
    z.string().min(1).default('org_id'),
  ),
  failpoints: setting('DORMOUSE_FAILPOINTS', 'for tests: failpoints to arm', z.string().default('')),
})

const everyAddress = new Set(['', '*', '0.0.0.0', '::', '[::]'])

/**
 * An issuer without an audience would let in every token it ever makes, for whomever. And who listens on every address
 * would tell agents to dial 0.0.0.0, which is each of them itself.
 */
export const configSchema = settings.superRefine((given, { addIssue }) => {
  const { oidcIssuer, oidcAudience, oidcJwksUrl, host, publicUrl } = given
  const missing = (path: string) => addIssue({ code: 'custom', path: [path], message: 'is needed too' })
  if (everyAddress.has(host) && !publicUrl) missing('publicUrl')
  if (oidcIssuer && !oidcAudience) missing('oidcAudience')
  if (!oidcIssuer && (oidcAudience || oidcJwksUrl)) missing('oidcIssuer')
})

export type Config = z.output<typeof configSchema>
