// What authenticates hosts, in the table of hosts. Knows no signature.
import type { Db } from '../db/pool.ts'

export interface KnownHost {
  id: string
  name: string
  publicKey: { kty: 'OKP'; crv: 'Ed25519'; x: string }
  removedAt: Date | null
}

const columns = `id, name, public_key as "publicKey", removed_at as "removedAt"`

/** Also finds a removed host: the holder of its key may learn that it was removed. */
export async function findKnown(db: Db, id: string): Promise<KnownHost | undefined> {
  const { rows } = await db.query<KnownHost>({
    name: 'hosts-known',
    text: `select ${columns} from hosts where id = $1`,
    values: [id],
  })
  return rows[0]
}
