// Guarantee: the firewall is up when `hold` resolves, is restored if it was changed, and never counts as up because a check
// failed. What the rules do is shown on a kernel: test/real/firewall.test.ts.
import { createLog } from '@dormouse/process'
import { beforeEach, expect, test } from 'vitest'
import { Firewall } from './firewall.ts'

const spec = { table: 'dormouse_t', bridge: 'dmt', gateway: '10.9.0.1', allowed: [] }
const lines: string[] = []
const log = createLog({ name: 'test', destination: { write: (line: string) => void lines.push(line) } })

/** The kernel's side: its present rules, and how often they were written. */
let stands: string | undefined
let writes: number
let broken: string | undefined
let lateLooks = 0
let firewall: Firewall
beforeEach(() => {
  ;[stands, writes, broken] = [undefined, 0, undefined]
  lateLooks = 0
  firewall = new Firewall(spec, log, async (_, input) => {
    if (broken) throw new Error(broken)
    if (input !== undefined) {
      writes += 1
      stands = input.split('\n').length > 3 ? input : undefined
    }
    if (input === undefined && lateLooks-- > 0) throw new Error('nft: SIGKILL')
    if (stands === undefined && input === undefined) throw new Error('No such file or directory')
    return input === undefined ? stands! : ''
  })
})

test('it is put up once, and again when somebody changed it or took it away', async () => {
  await Promise.all([firewall.ensure(), firewall.ensure(), firewall.ensure()])
  await firewall.ensure()
  expect(writes).toBe(1)
  stands = `${stands}accept`
  await firewall.ensure()
  expect(stands).not.toContain('}accept')
  stands = undefined
  await firewall.ensure()
  expect({ writes, stands: stands !== undefined }).toEqual({ writes: 3, stands: true })
})

test('a change raises an alarm; a look that takes too long does not', async () => {
  await firewall.ensure()
  lines.length = 0
  lateLooks = 1
  await firewall.ensure()
  expect({ lines, writes }).toEqual({ lines: [], writes: 2 })
  stands = undefined
  await firewall.ensure()
  expect(lines).toEqual([expect.stringContaining('was changed from outside')])
})

test('a process that begins writes it anew: its settings may have changed', async () => {
  stands = 'an earlier one’s'
  await firewall.ensure()
  expect(writes).toBe(1)
})

test('where nobody can look or write, it does not stand, until somebody can', async () => {
  broken = 'nft is not installed'
  await expect(firewall.ensure()).rejects.toThrow('nft is not installed')
  broken = undefined
  await firewall.ensure()
  broken = 'nft: SIGKILL'
  await expect(firewall.ensure()).rejects.toThrow('SIGKILL')
  broken = undefined
  await firewall.ensure()
  expect(writes).toBe(1)
})

test('it goes when it is taken away, and stands again when it is held', async () => {
  await firewall.ensure()
  await firewall.remove()
  expect(stands).toBeUndefined()
  await firewall.ensure()
  expect(stands).toContain('dmt')
})
