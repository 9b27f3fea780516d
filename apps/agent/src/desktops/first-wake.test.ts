// Guarantee: while a guest that began with a template is not somebody yet, no command of the contract reaches it.
import { newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { Bench, fenceOf } from '../testing/bench.ts'
import { reached, wayNames } from '../testing/ways-in.ts'

test.each(['before-resume', 'after-resume', 'after-identity'])(
  'every command is refused at %s, and none afterwards',
  async (name) => {
    await using bench = await Bench.start({ templatesMiB: 1_000 })
    const path = async (id: string) => (await bench.awake(fenceOf(id, 1, 1))).path
    expect(await path(newId())).toBe('boot')
    await bench.parts.templates.settled()
    const id = newId()
    let early: unknown
    bench.failpoints.set(`first-wake.${name}`, async () => {
      early = await reached(bench, id)
    })
    expect(await path(id)).toBe('template')
    expect(early).toEqual({})
    expect(Object.keys(await reached(bench, id))).toEqual(wayNames)
  },
)
