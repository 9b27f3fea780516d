// The tables of registered images, and of what their names mean.
import type { ImageRef } from '@dormouse/contract'
import type { Db } from '../db/pool.ts'

export interface ImageRow extends ImageRef {
  prefetch: boolean
  retiredAt: Date | null
  createdAt: Date
  /** Whether the name alone means this version. */
  inUse: boolean
}

const columns = `i.name, i.version, i.digest, i.source, i.bytes::float8 as bytes, i.prefetch, i.retired_at as "retiredAt",
  i.created_at as "createdAt", u.version is not null as "inUse"`
const tables = 'images i left join image_names u on u.name = i.name and u.version = i.version'

/** The version of that name; the one that the name means if none is given. */
export async function find(db: Db, name: string, version: string | undefined): Promise<ImageRow | undefined> {
  const { rows } = await db.query<ImageRow>({
    name: 'images-find',
    text: `select ${columns} from ${tables}
           where i.name = $1 and case when $2::text is null then u.version is not null else i.version = $2 end`,
    values: [name, version ?? null],
  })
  return rows[0]
}

/** Like `find`, and locks the version until the transaction ends. */
export async function lock(db: Db, name: string, version: string): Promise<ImageRow | undefined> {
  const { rows } = await db.query<ImageRow>(
    `select ${columns} from ${tables} where i.name = $1 and i.version = $2 for update of i`,
    [name, version],
  )
  return rows[0]
}

/** By name, newest version first. */
export async function list(db: Db): Promise<ImageRow[]> {
  const { rows } = await db.query<ImageRow>(
    `select ${columns} from ${tables} order by i.name, i.created_at desc, i.version`,
  )
  return rows
}

/** Adds the version, or renews one with the same digest: its source and prefetch are replaced, and it is no longer retired. */
export async function put(db: Db, image: ImageRef & { prefetch: boolean }): Promise<boolean> {
  const { rowCount } = await db.query(
    `insert into images as i (name, version, digest, source, bytes, prefetch) values ($1, $2, $3, $4, $5, $6)
     on conflict (name, version) do update set source = excluded.source, prefetch = excluded.prefetch, retired_at = null
       where i.digest = excluded.digest`,
    [image.name, image.version, image.digest, image.source, image.bytes, image.prefetch],
  )
  return rowCount === 1
}

/** From now on the name means that version. */
export async function use(db: Db, name: string, version: string): Promise<void> {
  await db.query(
    `insert into image_names (name, version) values ($1, $2)
     on conflict (name) do update set version = excluded.version`,
    [name, version],
  )
}

export async function retire(db: Db, name: string, version: string): Promise<void> {
  await db.query('update images set retired_at = now(), prefetch = false where name = $1 and version = $2', [
    name,
    version,
  ])
}
