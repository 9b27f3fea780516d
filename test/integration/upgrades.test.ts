// Guarantee: an operator sees which release runs where.
import { release } from '@dormouse/process'
import { expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'

test('each replica and each host has its release in the lists of operators', async () => {
  await using stack = await Stack.start({ replicas: 2 })
  const key = await stack.replica.parts.principals.createOperatorKey('ops')
  const list = async (what: string) => (await stack.api('GET', `/admin/v1/${what}`, { key })).json[what]
  expect(await list('hosts')).toMatchObject([{ name: stack.host.name, ...release }])
  const replicas = await waitFor('both replicas', async () => {
    const found = await list('replicas')
    return found.length === 2 && found
  })
  expect(replicas).toMatchObject([
    { id: stack.replica.parts.replicaId, url: stack.url, leads: true, ...release },
    { leads: false, ...release },
  ])
})
