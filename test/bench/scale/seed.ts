// Many desktops at once. One is created through the API, the others are rows like it.
import type { Service } from '../service.ts'

/** So many desktops that were never woken; their ids. Call it before hosts are linked: the control plane starts again. */
export async function seed(service: Service, count: number): Promise<string[]> {
  const [first] = await service.create(1)
  const { rows } = await service.database.query<{ id: string }>(
    `insert into desktops select (jsonb_populate_record(d, jsonb_build_object('id', uuidv7()))).*
       from desktops d, generate_series(2, $2) where d.id = $1 returning id`,
    [first, count],
  )
  await service.database.query('vacuum analyze desktops')
  // It counts desktops in memory.
  await service.restartControlPlane()
  return [first!, ...rows.map(({ id }) => id)]
}
