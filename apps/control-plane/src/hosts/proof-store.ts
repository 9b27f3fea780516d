// What the table of hosts keeps of how each host proves who it is, and the tokens that were used. No word of signatures.
import type { Db } from '../db/pool.ts'

export interface KnownHost {
  id: string
  name: string
  publicKey: { kty: 'OKP'; crv: 'Ed25519'; x: string }
  removedAt: Date | null
  challengedAt: Date | null
  /** How far its clock is ahead of ours; null while that is not known. */
  tokenSkewSecs: number | null
  /** The database's clock, which all replicas share. */
  now: Date
}

const columns = `id, name, public_key as "publicKey", removed_at as "removedAt", challenged_at as "challengedAt",
  token_skew_secs as "tokenSkewSecs", clock_timestamp() as now`

/** Also one that was removed: whoever has its key may hear so. */
export async function findKnown(db: Db, id: string): Promise<KnownHost | undefined> {
  const { rows } = await db.query<KnownHost>({
    name: 'hosts-known',
    text: `select ${columns} from hosts where id = $1`,
    values: [id],
  })
  return rows[0]
}

/** From now on no token lets this host in. */
export async function noteChallenge(db: Db, id: string): Promise<void> {
  await db.query('update hosts set challenged_at = now() where id = $1 and challenged_at is null', [id])
}

export interface UsedToken {
  hostId: string
  tokenId: string
  skewSecs: number
}

/** Used tokens that are kept of one host: twelve hours of an agent that loses its link every two seconds. */
const mostTokens = 20_000

/**
 * Uses a token up; false where it was used before, the host has signed a challenge meanwhile, or it has used up too many:
 * a host makes tokens as fast as it likes, and each is a row.
 */
export async function useToken(db: Db, { hostId, tokenId, skewSecs }: UsedToken): Promise<boolean> {
  const { rowCount } = await db.query(
    `with host as (
       update hosts set token_skew_secs = $3, token_used_at = now() where id = $1 and challenged_at is null
         and (select count(*) from (select 1 from host_tokens_used where host_id = $1 limit $4) used) < $4 returning id)
     insert into host_tokens_used (host_id, token_id) select id, $2 from host on conflict do nothing`,
    [hostId, tokenId, skewSecs, mostTokens],
  )
  return rowCount === 1
}

/** Forgets tokens that are too old to be good: their hours are counted generously. */
export async function pruneTokens(db: Db): Promise<number> {
  const { rowCount } = await db.query(`delete from host_tokens_used where used_at < now() - interval '12 hours'`)
  return rowCount ?? 0
}
