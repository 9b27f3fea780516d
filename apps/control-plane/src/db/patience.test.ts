// Guarantee: while the database is away a read waits for it, so long and no longer; what is wrong is told at once.
import { expect, test } from 'vitest'
import { CommitUnknown, patienceMs, patiently } from './pool.ts'

const away = (code: string) => Object.assign(new Error('away'), { code })

test.each(['ECONNREFUSED', 'EHOSTUNREACH', '57P01', '57P03', '40P01', '08006', '53300'])(
  'a read that fails with %s is asked again until it answers',
  async (code) => {
    let asked = 0
    const read = async () => (++asked < 4 ? Promise.reject(away(code)) : 'answer')
    expect(await patiently(read)).toBe('answer')
    expect(asked).toBe(4)
  },
)

test('what may be done twice is done again where the answer to its commit was lost', async () => {
  let asked = 0
  const act = async () => (++asked < 2 ? Promise.reject(new CommitUnknown(1, away('ECONNRESET'))) : 'done')
  expect(await patiently(act)).toBe('done')
})

test('patience ends, after ten seconds where nothing else is said, and a fault is no absence', async () => {
  expect(patienceMs.contract).toBe(10_000)
  let asked = 0
  const never = () => {
    asked++
    return Promise.reject(away('ECONNREFUSED'))
  }
  await expect(patiently(never, 100)).rejects.toThrow('away')
  expect(asked).toBeGreaterThan(1)
  asked = 0
  const wrong = () => {
    asked++
    return Promise.reject(away('42703'))
  }
  await expect(patiently(wrong)).rejects.toThrow('away')
  expect(asked).toBe(1)
})
