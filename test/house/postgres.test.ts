// Guarantee: a database that goes away delays what is under way, ends nothing, and loses nothing that was accepted.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { startPostgres } from '../../scripts/ground/postgres.ts'
import { processesIn, signal } from '../../scripts/ground/processes.ts'
import { makeTemplate } from '../ground.ts'
import { House } from '../house.ts'
import { send } from './api.ts'
import { until } from './until.ts'

/** A Postgres of this test's own, with the template on it. */
async function ownPostgres() {
  const folder = mkdtempSync(join(tmpdir(), 'dormouse-postgres-'))
  const postgres = await startPostgres({
    dataDir: join(folder, 'pg'),
    runtimeDir: folder,
    say: () => undefined,
    durable: true,
    endsWithUs: true,
  })
  await makeTemplate(postgres.url)
  return {
    postgres,
    /** Every process of it stands still, or goes on. */
    still: (how: 'SIGSTOP' | 'SIGCONT') => {
      for (const each of processesIn(join(folder, 'pg'))) signal(each, how)
    },
    [Symbol.asyncDispose]: async () => {
      await postgres.stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

test('a Postgres that is restarted, then killed, while operations run: each goes on and ends well, and mutations meanwhile are 503', async () => {
  await using own = await ownPostgres()
  await using house = await House.start({ databaseServer: own.postgres.url })
  house.chronicle.foresee(/./)
  const { id } = await house.desktop('awake')
  await house.remember(id, 'durable')
  const release = house.host.driver.faults.hang('save')
  const hibernation = await house.begin(id, 'hibernate')
  await until('the save', () => house.host.failpoints.hits.includes('hibernate.before-save'))
  await own.postgres.stop()
  const denied = await house.api('POST', '/v1/desktops', { body: { tier: 'small' } })
  expect([denied.status, denied.headers['retry-after'] !== undefined]).toEqual([503, true])
  const read = await house.api('GET', `/v1/desktops/${id}`)
  expect(read.status).toBe(500)
  expect(read.text).not.toMatch(/ECONN|postgres|connection/i)
  release()
  await own.postgres.restart()
  await until('leadership', () => house.replica.leads)
  expect(await house.settled(hibernation.id)).toMatchObject({ state: 'succeeded' })
  const wake = await house.begin(id, 'wake')
  await own.postgres.kill()
  await own.postgres.restart()
  await until('leadership', () => house.replica.leads)
  expect(await house.settled(wake.id)).toMatchObject({ state: 'succeeded', result: { resumed_from: 'memory' } })
  expect(await house.recall(id)).toEqual({ memory: 'durable', disk: 'durable' })
})

test('a Postgres that is frozen is told as away by /readyz, and what is under way goes on after it', async () => {
  await using own = await ownPostgres()
  await using house = await House.start({ databaseServer: own.postgres.url })
  house.chronicle.foresee(/./)
  const { id } = await house.desktop('awake')
  const release = house.host.driver.faults.hang('save')
  const hibernation = await house.begin(id, 'hibernate')
  await until('the save', () => house.host.failpoints.hits.includes('hibernate.before-save'))
  own.still('SIGSTOP')
  release()
  // The pool itself would wait for twelve seconds.
  const signal = AbortSignal.timeout(8_000)
  const looked = await send(`${house.replica.url}/readyz`, 'GET', { signal }).finally(() => own.still('SIGCONT'))
  expect(looked).toMatchObject({ status: 503, json: { status: 'not ready', database: false } })
  await until('leadership', () => house.replica.leads)
  expect(await house.settled(hibernation.id)).toMatchObject({ state: 'succeeded' })
})
