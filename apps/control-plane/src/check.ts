// `dormouse-control-plane check`: looks at all that a control plane stands on, without changing anything.
import { statfs } from 'node:fs/promises'
import { isIP } from 'node:net'
import { connect } from 'node:tls'
import { type Check, ConfigError, type Finding, failed, ok, StartError, warning } from '@dormouse/process'
import type { Config } from './config.ts'
import { tlsSentence } from './db/certificates.ts'
import { clockOffset, clockRemedy, isOff, offText } from './db/clock.ts'
import { migrationsFolder, readMigrations } from './db/migrations.ts'
import { explained, requireVersion } from './db/opening.ts'
import { openPool, type Pool } from './db/pool.ts'
import { readTlsFiles } from './db/tls-files.ts'
import { fetchKeySet } from './principals/issuer.ts'

const timeoutMs = 5_000
const clockFailsMs = 30_000
const certificateWarnsDays = 21
const spaceTriedMib = 16
const written = '/var/lib'
const diskWarnsMib = 1024
const dayMs = 86_400_000

/** `read` returns the settings, and tells of variables that are none. */
export function checksOf(read: (warn: (sentence: string) => void) => Config): Check[] {
  const unknown: string[] = []
  try {
    const config = read((sentence) => unknown.push(sentence))
    readTlsFiles(config.databaseUrl)
    const look = async () => (unknown.length > 0 ? warning(unknown.join('; '), 'correct or remove them') : ok('valid'))
    return [{ name: 'settings', look }, ...checksWith(config)]
  } catch (error) {
    const problems = error instanceof ConfigError ? error.problems.map((problem) => new StartError(problem)) : [error]
    return problems.map((problem) => ({ name: 'settings', look: () => Promise.reject(problem) }))
  }
}

function checksWith(config: Config): Check[] {
  const pool = openPool(config.databaseUrl, 2, () => undefined)
  const onDatabase = (name: string, look: (pool: Pool) => Promise<Finding | undefined>): Check => ({
    name,
    ...(name !== 'database' && { needs: 'database' }),
    look: () =>
      look(pool).catch((error: unknown) => {
        throw explained(error)
      }),
  })
  return [
    onDatabase('database', database),
    onDatabase('encoding', encoding),
    onDatabase('rights', rights),
    onDatabase('pooler', pooler),
    onDatabase('connections', (db) => connections(db, config.databasePool)),
    onDatabase('schema', schema),
    onDatabase('space', space),
    onDatabase('clock', clock),
    { name: 'disk', look: disk },
    { name: 'public URL', look: () => publicUrl(config) },
    { name: 'issuer', look: () => issuer(config) },
    { name: 'end', look: () => pool.end().then(() => undefined) },
  ]
}

async function database(db: Pool): Promise<Finding> {
  await requireVersion(db)
  const { rows } = await db.query<{ version: string; name: string; role: string; readonly: boolean }>(
    `select current_setting('server_version') as version, current_database() as name, current_user as role,
       pg_is_in_recovery() or current_setting('default_transaction_read_only') = 'on' as readonly`,
  )
  const { version, name, role, readonly } = rows[0]!
  if (readonly) return failed(`${name} is read-only`, 'name the primary in DATABASE_URL')
  return ok(`Postgres ${version}, database ${name}, as ${role}`)
}

async function encoding(db: Pool): Promise<Finding> {
  const { rows } = await db.query<{ encoding: string }>(`select current_setting('server_encoding') as encoding`)
  const found = rows[0]!.encoding
  return found === 'UTF8'
    ? ok(found)
    : failed(`the database has the encoding ${found}`, 'create it again with `encoding UTF8 template template0`')
}

/** The schema is made in the first one of the search path. */
async function rights(db: Pool): Promise<Finding> {
  const { rows } = await db.query<{ schema: string | null; creates: boolean; owner: string; extension: boolean }>(
    `select current_schema() as schema, coalesce(has_schema_privilege(current_schema(), 'create'), false) as creates,
       (select pg_get_userbyid(datdba) from pg_database where datname = current_database()) as owner,
       exists (select from pg_extension where extname = 'btree_gist')
         or has_database_privilege(current_database(), 'create')
           and exists (select from pg_available_extensions where name = 'btree_gist') as extension`,
  )
  const { schema: name, creates, owner, extension } = rows[0]!
  if (!creates)
    return failed(
      `this user may not create tables in ${name ? `the schema ${name}` : 'any schema'} of ${owner}'s database`,
      'let the user own the database: `alter database … owner to …`',
    )
  if (!extension)
    return failed(
      'the extension btree_gist is missing, and this user may not create it',
      'as a superuser, run `create extension btree_gist` in that database; it is in the package postgresql-contrib of some systems',
    )
  return ok(`tables and extensions, in the database of ${owner}`)
}

/** Behind a pooler that lends connections by the transaction, two open connections are one session. */
async function pooler(db: Pool): Promise<Finding> {
  const [one, other] = await Promise.all([db.connect(), db.connect()])
  try {
    const pidOf = async () => (await one.query<{ pid: number }>('select pg_backend_pid() as pid')).rows[0]!.pid
    const first = await pidOf()
    const { rows } = await other.query<{ pid: number }>('select pg_backend_pid() as pid')
    return first !== rows[0]!.pid && first === (await pidOf())
      ? ok('each connection is a session of its own')
      : failed(
          'a pooler lends sessions of the database by the transaction, which breaks leadership and events',
          'name the database itself in DATABASE_URL, or set the pooler to `pool_mode = session`',
        )
  } finally {
    one.release()
    other.release()
  }
}

/** Besides its pool, a replica has sessions for leadership, events and migrations. */
const besidesThePool = 4

async function connections(db: Pool, size: number): Promise<Finding> {
  const { rows } = await db.query<{ most: number; used: number; replicas: number }>(
    `select least(current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int,
         nullif((select rolconnlimit from pg_roles where rolname = current_user), -1),
         nullif((select datconnlimit from pg_database where datname = current_database()), -1)) as most,
       (select count(*)::int from pg_stat_activity where backend_type = 'client backend'
          and application_name not like 'dormouse%') as used,
       case when to_regclass('replicas') is null then 0
         else (xpath('/row/n/text()', query_to_xml(
           'select count(*) as n from replicas where seen_at > now() - interval ''1 minute''', true, true, '')))[1]::text::int
       end as replicas`,
  )
  const { most, used, replicas } = rows[0]!
  const each = size + besidesThePool
  const room = Math.floor((most - used) / each)
  const detail = `${most} allowed, ${used} used by others, ${each} for each replica`
  if (room < 1) return failed(detail, 'raise max_connections of Postgres, or lower DORMOUSE_DATABASE_POOL')
  if (room < Math.max(2, replicas + 1))
    return warning(
      `${detail}: enough for ${room}, and ${replicas} run now`,
      'raise max_connections of Postgres, or lower DORMOUSE_DATABASE_POOL, before another replica starts',
    )
  return ok(`${detail}: enough for ${room}`)
}

async function schema(db: Pool): Promise<Finding> {
  const { rows } = await db.query<{ there: boolean }>(`select to_regclass('migrations') is not null as there`)
  if (!rows[0]!.there) return ok('empty; `dormouse-control-plane init` makes it')
  const applied = await db.query<{ name: string }>('select name from migrations')
  const names = new Set(applied.rows.map(({ name }) => name))
  const known = readMigrations(migrationsFolder).map(({ name }) => name)
  const missing = known.filter((name) => !names.has(name))
  const unknown = [...names].filter((name) => !known.includes(name))
  if (unknown.length > 0)
    return warning(
      `of a newer release: ${unknown.join(', ')}`,
      'upgrade this machine; until then /readyz says whether it may serve',
    )
  return ok(missing.length > 0 ? `behind by ${missing.join(', ')}; the next start applies them` : 'up to date')
}

async function clock(db: Pool): Promise<Finding> {
  const offsetMs = await clockOffset(db)
  if (Math.abs(offsetMs) > clockFailsMs) return failed(offText(offsetMs), clockRemedy)
  return isOff(offsetMs) ? warning(offText(offsetMs), clockRemedy) : ok('within 2 s of the database')
}

/** Rows of a temporary table that is dropped at once: only a write shows that there is space. */
async function space(db: Pool): Promise<Finding | undefined> {
  const { rows } = await db.query<{ may: boolean }>(
    `select has_database_privilege(current_database(), 'temporary') as may`,
  )
  if (!rows[0]!.may) return undefined
  const client = await db.connect()
  try {
    await client.query('begin')
    await client.query(`set local temp_tablespaces = ''`)
    await client.query(
      `create temporary table dormouse_check on commit drop as
         select repeat('x', 1000) from generate_series(1, ${spaceTriedMib * 1_000})`,
    )
    return ok(`${spaceTriedMib} MiB were written, and given back`)
  } finally {
    await client.query('rollback').catch(() => undefined)
    client.release()
  }
}

/** What this machine writes is its log, and perhaps backups and the database. */
async function disk(): Promise<Finding> {
  const { bavail, bsize } = await statfs(written)
  const mib = Math.floor((bavail * bsize) / 1024 ** 2)
  const detail = `${mib} MiB free at ${written}`
  return mib < diskWarnsMib
    ? warning(detail, 'free some, for the log, backups, and a database on this machine')
    : ok(detail)
}

/** A name that agents use, whoever answers there now. */
async function publicUrl({ publicUrl: text }: Config): Promise<Finding | undefined> {
  if (!text)
    return warning(
      'DORMOUSE_PUBLIC_URL is not set: only this machine reaches this replica',
      'set it, unless it is for a trial',
    )
  const url = new URL(text)
  if (url.protocol !== 'https:')
    return warning(`${text} is not https: agents on other machines refuse it`, 'put a proxy with TLS in front of it')
  const end = await certificateEnd(url).catch((error: NodeJS.ErrnoException) => error)
  if (end instanceof Error)
    return warning(
      `${text} does not answer by TLS: ${tlsSentence(end) ? end.code : end.message}`,
      'start the proxy, and see that its certificate names this host and that this machine trusts its authority',
    )
  const days = Math.floor((end.getTime() - Date.now()) / dayMs)
  const detail = `${text}; its certificate ends in ${days} days`
  return days < certificateWarnsDays ? warning(detail, 'renew it, or mend its renewal') : ok(detail)
}

function certificateEnd({ hostname, port }: URL): Promise<Date> {
  const { promise, resolve, reject } = Promise.withResolvers<Date>()
  const host = hostname.replace(/^\[|\]$/g, '')
  const socket = connect(
    { host, port: Number(port || 443), ...(!isIP(host) && { servername: host }), timeout: timeoutMs },
    () => {
      resolve(new Date(socket.getPeerCertificate().valid_to))
      socket.destroy()
    },
  )
  socket.on('timeout', () => socket.destroy(new Error(`no answer in ${timeoutMs / 1_000} s`)))
  socket.on('error', reject)
  return promise
}

async function issuer({ oidcIssuer, oidcJwksUrl }: Config): Promise<Finding | undefined> {
  if (!oidcIssuer) return undefined
  try {
    const { keys } = await fetchKeySet({ issuer: oidcIssuer, jwksUrl: oidcJwksUrl ?? null })
    if (keys.length === 0)
      return warning(`${oidcIssuer} publishes no key`, 'until it does, no access token is accepted')
    return ok(`${keys.length} keys of ${oidcIssuer}`)
  } catch (error) {
    return failed(
      `the keys of ${oidcIssuer} cannot be read: ${(error as Error).message}`,
      'correct OIDC_ISSUER or OIDC_JWKS_URL, or let this machine reach it',
    )
  }
}
