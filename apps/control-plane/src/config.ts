// What an operator may set, each with a default that works where one can. Read once, at the door.
import { setting } from '@dormouse/process'
import { z } from 'zod'

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

export const configSchema = z.object({
  databaseUrl: setting(
    'DATABASE_URL',
    'Postgres, such as postgres://user:password@host:5432/dormouse',
    z.string().min(1),
    { secret: true },
  ),
  host: setting('DORMOUSE_HOST', 'address to listen on', z.string().default('127.0.0.1')),
  port: whole('PORT', 8080, 'port to listen on; 0 is any free one', 0),
  publicUrl: setting(
    'DORMOUSE_PUBLIC_URL',
    'base URL at which agents and other replicas reach this one; by default where it listens',
    z.url().optional(),
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
    'idle time-out of a desktop that names none; 0 is never',
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
  leadershipLeaseMs: ms('DORMOUSE_LEASE_SECS', 3, 'leadership lease of a replica'),
  heartbeatMs: ms('DORMOUSE_HEARTBEAT_SECS', 5, 'how often an agent says that it lives'),
  hostLeaseMs: ms(
    'DORMOUSE_HOST_LEASE_SECS',
    60,
    'how long a host may be silent before what it runs on shared storage must stop',
  ),
  failpoints: setting('DORMOUSE_FAILPOINTS', 'for tests: failpoints to arm', z.string().default('')),
})

export type Config = z.output<typeof configSchema>
