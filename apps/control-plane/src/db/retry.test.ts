// Guarantee: while the database is unavailable a read is retried, up to its limit; any other error is thrown at once.
import { expect, test } from 'vitest'
import { CommitUnknown, retryLimitMs, retryWhileUnavailable } from './pool.ts'

const away = (code: string) => Object.assign(new Error('away'), { code })

test.each(['ECONNREFUSED', 'EHOSTUNREACH', '57P01', '57P03', '40P01', '08006', '53300'])(
  'a read that fails with %s is retried until it succeeds',
  async (code) => {
    let asked = 0
    const read = async () => (++asked < 4 ? Promise.reject(away(code)) : 'answer')
    expect(await retryWhileUnavailable(read)).toBe('answer')
    expect(asked).toBe(4)
  },
)

test('an idempotent action is repeated where the answer to its commit was lost', async () => {
  let asked = 0
  const act = async () => (++asked < 2 ? Promise.reject(new CommitUnknown(1, away('ECONNRESET'))) : 'done')
  expect(await retryWhileUnavailable(act)).toBe('done')
})

test('retrying ends after ten seconds by default, and an error of the query is not retried', async () => {
  expect(retryLimitMs.contract).toBe(10_000)
  let asked = 0
  const never = () => {
    asked++
    return Promise.reject(away('ECONNREFUSED'))
  }
  await expect(retryWhileUnavailable(never, 100)).rejects.toThrow('away')
  expect(asked).toBeGreaterThan(1)
  asked = 0
  const wrong = () => {
    asked++
    return Promise.reject(away('42703'))
  }
  await expect(retryWhileUnavailable(wrong)).rejects.toThrow('away')
  expect(asked).toBe(1)
})
