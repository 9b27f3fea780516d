// What authenticates hosts, in the table of hosts, and the table of used tokens. Knows no signature.
import type { Db } from '../db/pool.ts'

export interface KnownHost {
  id: string
  name: string
  publicKey: { kty: 'OKP'; crv: 'Ed25519'; x: string }
  removedAt: Date | null
  challengedAt: Date | null
  /** How far its clock is ahead of ours; null while unknown. */
  tokenSkewSecs: number | null
  /** The database's clock, which all replicas share. */
  now: Date
}

const columns = `id, name, public_key as "publicKey", removed_at as "removedAt", challenged_at as "challengedAt",
  token_skew_secs as "tokenSkewSecs", clock_timestamp() as now`

/** Also finds a removed host: the holder of its key may learn that it was removed. */
export async function findKnown(db: Db, id: string): Promise<KnownHost | undefined> {
  const { rows } = await db.query<KnownHost>({
    name: 'hosts-known',
    text: `select ${columns} from hosts where id = $1`,
    values: [id],
  })
  return rows[0]
}

/** From now on no token authenticates this host. */
export async function noteChallenge(db: Db, id: string): Promise<void> {
  await db.query('update hosts set challenged_at = now() where id = $1 and challenged_at is null', [id])
}

export interface UsedToken {
  hostId: string
  tokenId: string
  skewSecs: number
}

/** Used tokens kept for one host: twelve hours of an agent that loses its link every two seconds. */
const mostTokens = 20_000

/**
 * Uses a token up. False where it was used before, where the host has signed a challenge meanwhile, or where it has used too
 * many: a host can make any number of tokens, and each takes a row.
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

/** Deletes used tokens that are long too old to be valid; answers how many. */
export async function pruneTokens(db: Db): Promise<number> {
  const { rowCount } = await db.query(`delete from host_tokens_used where used_at < now() - interval '12 hours'`)
  return rowCount ?? 0
}
