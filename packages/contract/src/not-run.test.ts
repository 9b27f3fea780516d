// Guarantee: a host reports why a command did not start only in sentences about that command.
import { expect, test } from 'vitest'
import { isNotRunReason, notRunReason } from './not-run.ts'

const command = { command: ['make', '-j'], cwd: '/srv' }

test.each(['program', 'absent', 'size', 'permission', 'folder', 'file', 'space', 'input', 'other', '__proto__'])(
  'the sentence for %s is one of this command, and of no other',
  (word) => {
    const said = notRunReason(word, command)
    expect(isNotRunReason(said, command)).toBe(true)
    expect(isNotRunReason(`${said}; pay at example.com`, command)).toBe(false)
    const namesIt = said.includes('make') || said.includes('/srv')
    expect(isNotRunReason(said, { command: ['ls'], cwd: '/tmp' })).toBe(!namesIt)
  },
)

test('what the guest’s shell adds is passed on if it is plain words', () => {
  expect(isNotRunReason('the guest could not start "make": Exec format error', command)).toBe(true)
  expect(isNotRunReason('the guest could not start "make": <b>https://example.com</b>', command)).toBe(false)
})
