// Claims on screens, and the tokens that open them: the tables. The only room that writes them.
import type { DesktopState, StreamClaim } from '@dormouse/contract'
import type { Db } from '../db/pool.ts'

/** Which screen, and as what. */
export interface Screen {
  desktopId: string
  claim: StreamClaim
}

export interface Hold {
  holdId: string
  holder: string
  generation: number
  heldUntil: Date
  /** By the database's clock, which all replicas share. */
  isHeld: boolean
}

/** A hold lasts as long as its URL can be opened, then as long as a socket is open, then as long as one may come back. */
export const tokenSecs = 60
export const graceSecs = 30
/** How long a page may wait for a desktop that fell asleep under it. */
export const waitSecs = 3_600

const soon = (secs: number) => `clock_timestamp() + interval '${secs} s'`

/** The claim, under lock, whoever holds it; made where there was none. */
export async function lock(db: Db, { desktopId, claim }: Screen): Promise<Hold> {
  await db.query(
    `insert into stream_claims (desktop_id, claim, hold_id, holder, generation, held_until)
     values ($1, $2, gen_random_uuid(), '', -1, '-infinity') on conflict do nothing`,
    [desktopId, claim],
  )
  const { rows } = await db.query<Hold>(
    `select hold_id as "holdId", holder, generation, held_until as "heldUntil",
       held_until > clock_timestamp() as "isHeld"
     from stream_claims where desktop_id = $1 and claim = $2 for update`,
    [desktopId, claim],
  )
  return rows[0]!
}

/** Who takes a claim, and for how many ms the credential is good; null for good until revoked. */
export interface Holder {
  holder: string
  goodForMs: number | null
  generation: number
}

/** Goes on holding it, for a new URL: as long as the best of the holder's credentials is good. */
export async function prolong(db: Db, { desktopId, claim }: Screen, by: Holder): Promise<void> {
  await db.query(
    `update stream_claims set generation = $3, held_until = greatest(held_until, ${soon(tokenSecs)}),
       good_until = greatest(good_until, clock_timestamp() + $4 * interval '1 millisecond')
     where desktop_id = $1 and claim = $2`,
    [desktopId, claim, by.generation, by.goodForMs],
  )
}

/** Gives it to a new holder: sockets and tokens of the old one are good for nothing. */
export async function hand(db: Db, { desktopId, claim }: Screen, to: Holder & { holdId: string }): Promise<void> {
  await db.query(
    `update stream_claims set hold_id = $3, holder = $4, generation = $5, held_until = ${soon(tokenSecs)},
       session_id = null, ticket_hash = null, previous_hash = null, waits_until = null,
       good_until = clock_timestamp() + $6 * interval '1 millisecond'
     where desktop_id = $1 and claim = $2`,
    [desktopId, claim, to.holdId, to.holder, to.generation, to.goodForMs],
  )
}

/** Answers until when the token is good. */
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
  /** What the last socket was opened with, until its page has its ticket. */
  previousHash: Buffer | null
  /** A page that fell asleep with its desktop may still come back. */
  waits: boolean
  /** The holder's access token is good no more. */
  expired: boolean
  desktop: { state: DesktopState; generation: number; hostId: string | null }
}

/** The claim under lock, and how its desktop is; undefined where nobody ever claimed it. */
export async function lockStanding(db: Db, { desktopId, claim }: Screen): Promise<Standing | undefined> {
  const { rows } = await db.query<Standing>(
    `select c.hold_id as "holdId", c.holder, c.generation, c.held_until as "heldUntil",
       c.held_until > clock_timestamp() as "isHeld", c.ticket_hash as "ticketHash",
       c.previous_hash as "previousHash", coalesce(c.waits_until > clock_timestamp(), false) as waits,
       coalesce(c.good_until <= clock_timestamp(), false) as expired,
       json_build_object('state', d.state, 'generation', d.generation, 'hostId', d.host_id) as desktop
     from stream_claims c join desktops d on d.id = c.desktop_id
     where c.desktop_id = $1 and c.claim = $2 for update of c`,
    [desktopId, claim],
  )
  return rows[0]
}

/** Takes a token out of the world; undefined where there is none for this screen, or it came too late. */
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

/** A socket opens: whatever socket was open before is not the claim's any more. */
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

/** The page has its ticket: what it was opened with is good for nothing any more. */
export async function confirm(db: Db, sessionId: string): Promise<void> {
  await db.query('update stream_claims set previous_hash = null where session_id = $1', [sessionId])
}

/** Open sockets hold their claims. */
export async function renew(db: Db, sessionIds: string[]): Promise<void> {
  await db.query(
    `update stream_claims set held_until = greatest(held_until, ${soon(graceSecs)}) where session_id = any($1)`,
    [sessionIds],
  )
}

/** The socket has closed: its holder may come back within the grace. */
export async function leave(db: Db, sessionId: string): Promise<void> {
  await db.query(
    `update stream_claims set session_id = null, held_until = greatest(held_until, ${soon(graceSecs)})
     where session_id = $1`,
    [sessionId],
  )
}

/** The desktop fell asleep: the claim is free, but whoever waits for the desktop to wake may come back. */
export async function release(db: Db, sessionId: string): Promise<void> {
  await db.query(
    `update stream_claims set session_id = null, held_until = clock_timestamp(), waits_until = ${soon(waitSecs)}
     where session_id = $1`,
    [sessionId],
  )
}

/** Whoever was away when the desktop fell asleep may come back as one who was there. */
export async function wait(db: Db, { desktopId, claim }: Screen): Promise<void> {
  await db.query(`update stream_claims set waits_until = ${soon(waitSecs)} where desktop_id = $1 and claim = $2`, [
    desktopId,
    claim,
  ])
}

export interface Watched {
  sessionId: string
  holder: string
  /** The holder's access token is good no more. */
  expired: boolean
  state: DesktopState
  generation: number
}

/** Those of these sockets that still are their claim's, and how their desktops are. */
export async function watched(db: Db, sessionIds: string[]): Promise<Watched[]> {
  const { rows } = await db.query<Watched>({
    name: 'streams-watched',
    text: `select c.session_id as "sessionId", c.holder, d.state, d.generation,
             coalesce(c.good_until <= clock_timestamp(), false) as expired
           from stream_claims c join desktops d on d.id = c.desktop_id where c.session_id = any($1)`,
    values: [sessionIds],
  })
  return rows
}

/** Forgets what opens nothing any more. */
export async function prune(db: Db): Promise<void> {
  await db.query('delete from stream_tokens where expires_at < clock_timestamp()')
  await db.query(
    `delete from stream_claims where held_until < clock_timestamp() - interval '1 day'
       and (waits_until is null or waits_until < clock_timestamp())`,
  )
}
