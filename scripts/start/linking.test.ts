// Guarantee: a start needs only the hosts that connect, and reports each other one with its reason and remedy.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { HostJson } from '@dormouse/client'
import { expect, onTestFinished, test } from 'vitest'
import { linkHosts, type Place } from './linking.ts'

const complaint = { level: 40, time: '2100-01-01T00:00:00Z', msg: 'the control plane was not reached', why: 'refused' }

/** Hosts by name, each in the state that the control plane reports. */
function startHosts(states: Record<string, HostJson['state']>) {
  const dir = mkdtempSync(join(tmpdir(), 'dormouse-linking-'))
  onTestFinished(() => rmSync(dir, { recursive: true }))
  const places = Object.keys(states).map((name) => ({ name, folder: join(dir, name) }))
  for (const { name, folder } of places) {
    mkdirSync(folder)
    writeFileSync(join(folder, 'identity.json'), JSON.stringify({ hostId: name }))
    writeFileSync(join(dir, `${name}.log`), `${JSON.stringify(complaint)}\nno line of a log\n`)
  }
  const started: string[] = []
  const said: string[] = []
  const linking = linkHosts(places, {
    list: async () => Object.entries(states).map(([id, state]) => ({ id, state }) as HostJson),
    isUsable: ({ state }) => state === 'active',
    start: async (place: Place) => {
      started.push(place.name)
      return { ...place, logFile: join(dir, `${place.name}.log`), since: new Date() }
    },
    say: (line) => said.push(line),
    timeoutMs: 100,
  })
  const removal = (name: string) =>
    `${name} was removed from this installation; to use it again, delete ${join(dir, name)} and run npm start`
  const silence = (name: string) =>
    `${name} did not connect: the control plane was not reached: refused; log: ${join(dir, name)}.log`
  return { linking, started, said, removal, silence }
}

test('a removed host is reported and not started, and the others serve', async () => {
  const { linking, started, said, removal, silence } = startHosts({
    one: 'removed',
    two: 'active',
    three: 'unreachable',
  })
  expect(await linking).toBe(1)
  expect(started).toEqual(['two', 'three'])
  expect(said).toEqual([removal('one'), silence('three')])
})

test('if no host is usable, the error gives every reason', async () => {
  const mixed = startHosts({ one: 'removed', two: 'unreachable' })
  await expect(mixed.linking).rejects.toThrow(
    `no host is usable:\n  ${mixed.removal('one')}\n  ${mixed.silence('two')}`,
  )
  const gone = startHosts({ one: 'removed' })
  await expect(gone.linking).rejects.toThrow(`no host is usable:\n  ${gone.removal('one')}`)
  expect([gone.started, gone.said]).toEqual([[], []])
})
