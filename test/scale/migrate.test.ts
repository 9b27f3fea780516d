// Guarantee: a table of a million rows is changed while the service runs: nobody is refused, nobody loses the lead, and a
// migrator that is killed in the middle is followed by one that goes on. In short: `test/integration/migrate.test.ts`.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { beginTraffic } from '../integration/parts/traffic.ts'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'

const rows = 1_000_000
const fill = `-- outside a transaction
do $$
declare
  last uuid := '00000000-0000-0000-0000-000000000000';
  reached uuid;
begin
  loop
    select id into reached from (select id from desktops where id > last order by id limit 20000) batch order by id desc limit 1;
    exit when reached is null;
    update desktops set scale_note = 'filled' where id > last and id <= reached and scale_note is null;
    commit;
    last := reached;
  end loop;
end $$`
/** What locks a busy table stands alone in its file. */
const migrations = {
  '9001-column.sql': 'alter table desktops add column scale_note text',
  '9002-index.sql':
    '-- outside a transaction\ncreate index concurrently desktops_scale on desktops (org_id, updated_at, tier)',
  '9003-default.sql': `alter table desktops alter column scale_note set default 'new'`,
  '9004-fill.sql': fill,
  '9005-check.sql': 'alter table desktops add constraint scale_noted check (scale_note is not null) not valid',
  '9006-valid.sql': 'alter table desktops validate constraint scale_noted',
  '9007-long.sql': '-- outside a transaction\nselect pg_sleep(15)',
}

test('a million rows, under traffic', async () => {
  await using stack = await Stack.start({ replicas: 2 })
  const folder = mkdtempSync(join(tmpdir(), 'dormouse-scale-'))
  const other = await stack.otherOrg
  await stack.database.rows(
    `insert into desktops (id, org_id, tier, state, image_version, vcpus, memory_mib, disk_gib, idle_timeout_secs,
       billing_mode, created_at, updated_at)
     select gen_random_uuid(), $1, 'small', 'created', 'mini', 1, 512, 10, 1800, 'hourly', now(), now() + n * interval '1 s'
     from generate_series(1, ${rows}) n`,
    [other.id],
  )
  const epoch = stack.replica.parts.leadership.term?.epoch
  await using traffic = beginTraffic(stack)
  const took: Record<string, number> = {}
  const run = async () => {
    const began = performance.now()
    const child = spawn(process.execPath, [join(import.meta.dirname, 'migrator.ts'), stack.database.url, folder], {
      stdio: ['ignore', 'inherit', 'inherit'],
    })
    const exit = once(child, 'exit') as Promise<[number | null]>
    return { child, ended: exit.then(([code]) => ({ code, ms: Math.round(performance.now() - began) })) }
  }
  const building = () =>
    stack.database.rows(`select 1 from pg_stat_progress_create_index where datname = current_database()`)
  for (const [name, sql] of Object.entries(migrations)) {
    writeFileSync(join(folder, name), sql)
    if (name === '9002-index.sql') {
      const { child, ended } = await run()
      await waitFor('the build', async () => (await building()).length === 1)
      child.kill('SIGKILL')
      await ended
      await waitFor('its end', async () => (await building()).length === 0)
      const half = await stack.database.rows(
        `select indisvalid as valid from pg_index where indexrelid = to_regclass('desktops_scale')`,
      )
      expect(half).toEqual([{ valid: false }])
    }
    const { code, ms } = await (await run()).ended
    expect([name, code]).toEqual([name, 0])
    took[name] = ms
  }
  const noted = await traffic.stop()
  rmSync(folder, { recursive: true })
  console.log('ms by migration, start of its process included', took)
  console.log(`${noted.length} answers meanwhile; the slowest`, noted.slice(0, 5))
  expect(noted.filter(({ status }) => status >= 400)).toEqual([])
  expect(stack.replica.parts.leadership.term?.epoch).toBe(epoch)
  expect(
    await stack.database.rows(
      `select indisvalid as valid from pg_index where indexrelid = to_regclass('desktops_scale')`,
    ),
  ).toEqual([{ valid: true }])
  const [left] = await stack.database.rows<{ count: number }>(
    'select count(*)::int as count from desktops where scale_note is null',
  )
  expect(left).toEqual({ count: 0 })
})
