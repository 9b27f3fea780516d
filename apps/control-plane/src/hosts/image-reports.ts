// What hosts report of their images, as it is stored.
import type { ImageFetch } from '@dormouse/contract'
import type { Db } from '../db/pool.ts'

export interface HostWithImages {
  id: string
  name: string
  images: string[]
  digests: { image: string; digest: string }[]
  fetches: ImageFetch[]
  /** Null if it makes none. */
  templates: { image: string; memoryMiB: number; vcpus: number }[] | null
  /** Whether new desktops come to it: no operator keeps them away. */
  isOpen: boolean
}

/** What the hosts that are neither lost nor removed report of their images, by name. */
export async function withImages(db: Db): Promise<HostWithImages[]> {
  const { rows } = await db.query<HostWithImages>(
    `select id, name, images, facts->'imageDigests' as digests, facts->'fetches' as fetches,
       facts->'templates' as templates, cordoned_at is null and drain_id is null as "isOpen"
     from hosts where lost_at is null and removed_at is null and facts is not null order by name, id`,
  )
  return rows
}

/** The names of the images that any host reports which is not removed. */
export async function reportedImages(db: Db): Promise<string[]> {
  const { rows } = await db.query<{ name: string }>({
    name: 'hosts-reported-images',
    text: 'select distinct unnest(images) as name from hosts where removed_at is null order by 1',
  })
  return rows.map(({ name }) => name)
}
