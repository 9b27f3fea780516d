import { expect, test } from 'vitest'
import { Settled } from './settled.ts'

test('consecutive numbers are settled at once, whatever is in progress', () => {
  const settled = new Settled(4)
  expect(settled.take({ seqs: [5, 6, 7], xmin: 90 })).toBe(3)
  expect(settled.position).toBe(7)
  expect([settled.waits, settled.wantsId]).toEqual([false, false])
})

test('a gap holds back what is above it until its transactions have ended', () => {
  const settled = new Settled(4)
  expect(settled.take({ seqs: [5, 7], xmin: 90 })).toBe(1)
  expect([settled.waits, settled.wantsId]).toEqual([true, true])
  // No id is known yet.
  expect(settled.take({ seqs: [7], xmin: 200 })).toBe(0)
  settled.took(100)
  // Later transactions do not extend the wait, and one that began before the id may still fill the gap.
  expect(settled.take({ seqs: [7, 8], xmin: 99 })).toBe(0)
  expect(settled.wantsId).toBe(false)
  expect(settled.take({ seqs: [6, 7, 8], xmin: 99 })).toBe(3)
  expect(settled.position).toBe(8)
})

test('a number that was rolled back is skipped once nothing that could have drawn it is in progress', () => {
  const settled = new Settled(4)
  expect(settled.take({ seqs: [6, 8], xmin: 90 })).toBe(0)
  settled.took(100)
  expect(settled.take({ seqs: [6, 8, 10], xmin: 100 })).toBe(2)
  expect(settled.position).toBe(8)
  // The next gap may be of a later transaction.
  expect(settled.wantsId).toBe(true)
  settled.took(120)
  expect(settled.take({ seqs: [10], xmin: 119 })).toBe(0)
  expect(settled.take({ seqs: [10], xmin: 120 })).toBe(1)
  expect(settled.waits).toBe(false)
})

test('a gap that fills while another opens above it is waited for by itself', () => {
  const settled = new Settled(0)
  expect(settled.take({ seqs: [2], xmin: 10 })).toBe(0)
  settled.took(20)
  // 1 has appeared; 3 may have been drawn after the id was taken.
  expect(settled.take({ seqs: [1, 2, 4], xmin: 20 })).toBe(2)
  settled.took(30)
  expect(settled.take({ seqs: [4], xmin: 29 })).toBe(0)
  expect(settled.take({ seqs: [4], xmin: 30 })).toBe(1)
})
