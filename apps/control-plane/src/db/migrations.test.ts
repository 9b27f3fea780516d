// Guarantee: each migration says which releases it leaves able to change things, so that a replica can be taken back.
import { expect, test } from 'vitest'
import { migrationsFolder, ownRelease, readMigrations, releaseOf } from './migrations.ts'

test('each migration names the oldest release that it serves, which is no later one than ours', () => {
  const migrations = readMigrations(migrationsFolder)
  const unmarked = migrations.filter(({ sql }) => !/^-- serves from \d+\.\d+\.\d+$/m.test(sql)).map(({ name }) => name)
  expect(unmarked).toEqual([])
  const later = migrations.filter(({ servesFrom }) =>
    servesFrom.some(
      (part, at) => part > ownRelease[at]! && servesFrom.slice(0, at).every((one, i) => one === ownRelease[i]),
    ),
  )
  expect(later.map(({ name }) => name)).toEqual([])
})

test('a version is compared by its numbers', () => {
  expect([releaseOf('0.12.1'), releaseOf('1.0.0-rc.2')]).toEqual([
    [0, 12, 1],
    [1, 0, 0],
  ])
})
