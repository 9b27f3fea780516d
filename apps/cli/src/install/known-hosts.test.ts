// Guarantee: known_hosts is read as OpenSSH reads it: plain, hashed, with ports, patterns and revoked keys.
import { createHmac } from 'node:crypto'
import { expect, test } from 'vitest'
import { judgeKey, knownTypes, lineFor, typeOf } from './known-hosts.ts'

const keyOf = (type: string, fill: number): Buffer => {
  const name = Buffer.from(type)
  const length = Buffer.alloc(4)
  length.writeUInt32BE(name.length)
  return Buffer.concat([length, name, Buffer.alloc(32, fill)])
}
const key = keyOf('ssh-ed25519', 1)
const other = keyOf('ssh-ed25519', 2)
const line = (names: string, of = key, mark = '') =>
  `${mark}${names} ${typeOf(of)} ${of.toString('base64')} a comment\n`
const hashed = (name: string) => {
  const salt = Buffer.alloc(20, 7)
  return `|1|${salt.toString('base64')}|${createHmac('sha1', salt).update(name).digest('base64')}`
}

test.each([
  ['the name', line('hv-1'), 'known'],
  ['one of several names', line('hv-2,hv-1,10.0.0.1'), 'known'],
  ['capitals', line('HV-1'), 'known'],
  ['a hash', line(hashed('hv-1')), 'known'],
  ['a hash of another host', line(hashed('hv-2')), 'unknown'],
  ['a pattern', line('hv-*'), 'known'],
  ['a pattern of one character', line('hv-?'), 'known'],
  ['a pattern with an exception', line('hv-*,!hv-1'), 'unknown'],
  ['a dot that is no pattern', line('hv.1'), 'unknown'],
  ['another port', line('[hv-1]:2222'), 'unknown'],
  ['a comment', `# ${line('hv-1')}`, 'unknown'],
  ['nothing', '', 'unknown'],
  ['another key', line('hv-1', other), 'changed'],
  ['a key of another type', line('hv-1', keyOf('ssh-rsa', 3)), 'changed'],
  ['both keys', line('hv-1', other) + line('hv-1'), 'known'],
  ['a revoked key', line('hv-1') + line('*', key, '@revoked '), 'revoked'],
  ['another key revoked', line('hv-1', other, '@revoked '), 'unknown'],
  ['an authority for certificates', line('hv-1', key, '@cert-authority '), 'unknown'],
  ['half a line', 'hv-1 ssh-ed25519\n', 'unknown'],
] as const)('with %s in the file, the key of hv-1', (_what, text, verdict) => {
  expect(judgeKey(text, 'hv-1', 22, key)).toBe(verdict)
})

test('a stored line is found again, with a port too', () => {
  for (const port of [22, 2222]) expect(judgeKey(lineFor('hv-1', port, key), 'hv-1', port, key)).toBe('known')
  expect(judgeKey(line(hashed('[hv-1]:2222')), 'hv-1', 2222, key)).toBe('known')
})

test('the types of known keys are named once, without revoked ones', () => {
  const text = line('hv-1') + line('hv-1', other) + line('hv-1', keyOf('ssh-rsa', 3), '@revoked ')
  expect(knownTypes(text, 'hv-1', 22)).toEqual(['ssh-ed25519'])
})
