// The tables of claims on screens and of the tokens that open them. No other module writes them.
import type { DesktopState, Labels, StreamClaim } from '@dormouse/contract'
import type { Db } from '../db/pool.ts'

/** A desktop's screen, and the claim on it. */
export interface Screen {
  desktopId: string
  claim: StreamClaim
}

export interface Hold {
  holdId: string
  holder: string
  generation: number
  heldUntil: Date
  /** Null if it has been held since before this was noted. */
  heldSince: Date | null
  /** By the database's clock, which all replicas share. */
  isHeld: boolean
}

/** A claim is held while its URL is valid, then while a socket is open, then for a grace period. */
export const tokenSecs = 60
export const graceSecs = 30
/** How long a page may wait for its sleeping desktop. */
export const waitSecs = 3_600

const soon = (secs: number) => `clock_timestamp() + interval '${secs} s'`

/** The claim, locked; created if there was none. */
export async function lock(db: Db, { desktopId, claim }: Screen): Promise<Hold> {
  await db.query(
    `insert into stream_claims (desktop_id, claim, hold_id, holder, generation, held_until)
     values ($1, $2, gen_random_uuid(), '', -1, '-infinity') on conflict do nothing`,
    [desktopId, claim],
  )
  const { rows } = await db.query<Hold>(
    `select hold_id as "holdId", holder, generation, held_until as "heldUntil", held_since as "heldSince",
       held_until > clock_timestamp() as "isHeld"
     from stream_claims where desktop_id = $1 and claim = $2 for update`,
    [desktopId, claim],
  )
  return rows[0]!
}

/** The client that takes a claim. `goodForMs` is null for a credential that is valid until revoked. */
export interface Holder {
  holder: string
  goodForMs: number | null
  generation: number
}

/** Extends the hold for a new URL, for as long as the holder's longest-lived credential is valid. */
export async function prolong(db: Db, { desktopId, claim }: Screen, by: Holder): Promise<void> {
  await db.query(
    `update stream_claims set generation = $3, held_until = greatest(held_until, ${soon(tokenSecs)}),
       good_until = greatest(good_until, clock_timestamp() + $4 * interval '1 millisecond')
     where desktop_id = $1 and claim = $2`,
    [desktopId, claim, by.generation, by.goodForMs],
  )
}

/** Gives the claim to a new holder. Sockets and tokens of the old one become invalid. */
export async function hand(db: Db, { desktopId, claim }: Screen, to: Holder & { holdId: string }): Promise<void> {
  await db.query(
    `update stream_claims set hold_id = $3, holder = $4, generation = $5, held_until = ${soon(tokenSecs)},
       session_id = null, ticket_hash = null, previous_hash = null, waits_until = null,
       good_until = clock_timestamp() + $6 * interval '1 millisecond'
     where desktop_id = $1 and claim = $2`,
    [desktopId, claim, to.holdId, to.holder, to.generation, to.goodForMs],
  )
}

/** Holds the claim for a batch. `held`: how it was held by the same holder before. */
export async function lend(
  db: Db,
  held: Hold | undefined,
  { desktopId, claim }: Screen,
  forMs: number,
): Promise<{ before: string; until: string }> {
  const { rows } = await db.query<{ before: string; until: string }>(
    `update stream_claims set held_until = greatest(held_until, clock_timestamp() + $3 * interval '1 millisecond')
     where desktop_id = $1 and claim = $2 returning coalesce($4::timestamptz, '-infinity')::text as before, held_until::text as until`,
    [desktopId, claim, forMs, held?.heldUntil ?? null],
  )
  return rows[0]!
}

/** The end of a batch: an open socket keeps the claim, and so does a holder that has prolonged it meanwhile. */
export async function giveBack(
  db: Db,
  { desktopId, holdId, before, until }: { desktopId: string; holdId: string; before: string; until: string },
): Promise<void> {
  await db.query(
    `update stream_claims set held_until = greatest($3::timestamptz, clock_timestamp())
     where desktop_id = $1 and claim = 'control' and hold_id = $2 and held_until = $4::timestamptz and session_id is null`,
    [desktopId, holdId, before, until],
  )
}

/** Who controls the desktop in this generation; undefined if the claim is free. */
export async function controlOf(
  db: Db,
  desktopId: string,
  generation: number,
): Promise<Pick<Hold, 'holder' | 'heldSince' | 'heldUntil'> | undefined> {
  const { rows } = await db.query<Pick<Hold, 'holder' | 'heldSince' | 'heldUntil'>>(
    `select holder, held_since as "heldSince", held_until as "heldUntil" from stream_claims
     where desktop_id = $1 and claim = 'control' and generation = $2 and holder <> '' and held_until > clock_timestamp()`,
    [desktopId, generation],
  )
  return rows[0]
}

/** Who controls these desktops, by their holds. */
export async function holdsOf(db: Db, desktopIds: readonly string[]): Promise<Map<string, string>> {
  const { rows } = await db.query<{ desktopId: string; holdId: string }>(
    `select desktop_id as "desktopId", hold_id as "holdId" from stream_claims
     where desktop_id = any($1) and claim = 'control'`,
    [desktopIds],
  )
  return new Map(rows.map(({ desktopId, holdId }) => [desktopId, holdId]))
}

/** Returns when the token expires. */
export async function insertToken(
  db: Db,
  { desktopId, claim }: Screen,
  token: { hash: Buffer; holdId: string; generation: number },
): Promise<Date> {
  const { rows } = await db.query<{ expiresAt: Date }>(
    `insert into stream_tokens (hash, desktop_id, claim, hold_id, generation, expires_at)
     values ($1, $2, $3, $4, $5, ${soon(tokenSecs)}) returning expires_at as "expiresAt"`,
    [token.hash, desktopId, claim, token.holdId, token.generation],
  )
  return rows[0]!.expiresAt
}

export interface Standing extends Hold {
  ticketHash: Buffer | null
  /** What opened the last socket, until its page has confirmed its ticket. */
  previousHash: Buffer | null
  /** A page may still return after its desktop fell asleep. */
  waits: boolean
  /** The holder's access token has expired. */
  expired: boolean
  desktop: { state: DesktopState; generation: number; hostId: string | null; labels: Labels }
}

/** The claim, locked, with its desktop's state; undefined if it was never claimed. */
export async function lockStanding(db: Db, { desktopId, claim }: Screen): Promise<Standing | undefined> {
  const { rows } = await db.query<Standing>(
    `select c.hold_id as "holdId", c.holder, c.generation, c.held_until as "heldUntil", c.held_since as "heldSince",
       c.held_until > clock_timestamp() as "isHeld", c.ticket_hash as "ticketHash",
       c.previous_hash as "previousHash", coalesce(c.waits_until > clock_timestamp(), false) as waits,
       coalesce(c.good_until <= clock_timestamp(), false) as expired,
       json_build_object('state', d.state, 'generation', d.generation, 'hostId', d.host_id, 'labels', d.labels) as desktop
     from stream_claims c join desktops d on d.id = c.desktop_id
     where c.desktop_id = $1 and c.claim = $2 for update of c`,
    [desktopId, claim],
  )
  return rows[0]
}

/** Deletes a token; undefined if there is none for this screen, or it has expired. */
export async function spendToken(
  db: Db,
  { desktopId, claim }: Screen,
  hash: Buffer,
): Promise<{ holdId: string; generation: number } | undefined> {
  const { rows } = await db.query<{ holdId: string; generation: number; isFresh: boolean }>(
    `delete from stream_tokens where hash = $1 and desktop_id = $2 and claim = $3
     returning hold_id as "holdId", generation, expires_at > clock_timestamp() as "isFresh"`,
    [hash, desktopId, claim],
  )
  return rows[0]?.isFresh ? rows[0] : undefined
}

/** Makes a socket the claim's session. An older socket loses it. */
export async function enter(
  db: Db,
  { desktopId, claim }: Screen,
  session: { id: string; generation: number; ticketHash: Buffer; previousHash: Buffer | null },
): Promise<void> {
  await db.query(
    `update stream_claims set session_id = $3, generation = $4, ticket_hash = $5, previous_hash = $6, waits_until = null,
       held_until = ${soon(graceSecs)}
     where desktop_id = $1 and claim = $2`,
    [desktopId, claim, session.id, session.generation, session.ticketHash, session.previousHash],
  )
}

/** The page has its ticket: what opened the socket becomes invalid. */
export async function confirm(db: Db, sessionId: string): Promise<void> {
  await db.query('update stream_claims set previous_hash = null where session_id = $1', [sessionId])
}

/** Extends the claims of open sockets. */
export async function renew(db: Db, sessionIds: string[]): Promise<void> {
  await db.query(
    `update stream_claims set held_until = greatest(held_until, ${soon(graceSecs)}) where session_id = any($1)`,
    [sessionIds],
  )
}

/** The socket has closed: its holder may return within the grace period. */
export async function leave(db: Db, sessionId: string): Promise<void> {
  await db.query(
    `update stream_claims set session_id = null, held_until = greatest(held_until, ${soon(graceSecs)})
     where session_id = $1`,
    [sessionId],
  )
}

/** The desktop fell asleep: the claim is free, but its page may return after the wake. */
export async function release(db: Db, sessionId: string): Promise<void> {
  await db.query(
    `update stream_claims set session_id = null, held_until = clock_timestamp(), waits_until = ${soon(waitSecs)}
     where session_id = $1`,
    [sessionId],
  )
}

/** Lets a page that was disconnected when the desktop fell asleep return after the wake. */
export async function wait(db: Db, { desktopId, claim }: Screen): Promise<void> {
  await db.query(`update stream_claims set waits_until = ${soon(waitSecs)} where desktop_id = $1 and claim = $2`, [
    desktopId,
    claim,
  ])
}

export interface Watched {
  sessionId: string
  holder: string
  /** The holder's access token has expired. */
  expired: boolean
  state: DesktopState
  generation: number
  hostId: string | null
  desktop: { id: string; labels: Labels }
}

/** The sessions that still have their claim, with their desktops' states. */
export async function watched(db: Db, sessionIds: string[]): Promise<Watched[]> {
  const { rows } = await db.query<Watched>({
    name: 'streams-watched-labels',
    text: `select c.session_id as "sessionId", c.holder, d.state, d.generation, d.host_id as "hostId",
             json_build_object('id', d.id, 'labels', d.labels) as desktop,
             coalesce(c.good_until <= clock_timestamp(), false) as expired
           from stream_claims c join desktops d on d.id = c.desktop_id where c.session_id = any($1)`,
    values: [sessionIds],
  })
  return rows
}

/** Notes the holds that have expired since the last time: the end of a hold is an event. */
export async function noteExpired(db: Db): Promise<void> {
  await db.query(
    `update stream_claims set expiry_noted = held_until
     where held_until < clock_timestamp() and expiry_noted is distinct from held_until and session_id is null and holder <> ''`,
  )
}

/** Deletes expired tokens and claims. */
export async function prune(db: Db): Promise<void> {
  await db.query('delete from stream_tokens where expires_at < clock_timestamp()')
  await db.query(
    `delete from stream_claims where held_until < clock_timestamp() - interval '1 day'
       and (waits_until is null or waits_until < clock_timestamp())`,
  )
}
