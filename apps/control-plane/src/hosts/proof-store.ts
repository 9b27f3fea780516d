// What authenticates hosts, in the table of hosts. Knows no signature.
import type { HostPublicKey } from '@dormouse/contract'
import type { Db } from '../db/pool.ts'

export interface KnownHost {
  id: string
  name: string
  publicKey: HostPublicKey
  removedAt: Date | null
}

const columns = `id, name, public_key as "publicKey", removed_at as "removedAt"`

/** From now on only the holder of this key links as the host. */
export async function replaceKey(db: Db, id: string, publicKey: HostPublicKey): Promise<void> {
  await db.query('update hosts set public_key = $2 where id = $1', [id, publicKey])
}

/** Also finds a removed host: the holder of its key may learn that it was removed. */
export async function findKnown(db: Db, id: string): Promise<KnownHost | undefined> {
  const { rows } = await db.query<KnownHost>({
    name: 'hosts-known',
    text: `select ${columns} from hosts where id = $1`,
    values: [id],
  })
  return rows[0]
}
