// Guarantee: a whole link opens its screen once, and one that was cut or changed opens nothing.
import { expect, test } from 'vitest'
import { Keyring } from './keyring.ts'

const token = 'a'.repeat(43)

function opened(hash: string, kept = new Map<string, string>()) {
  const storage = {
    getItem: (name: string) => kept.get(name) ?? null,
    setItem: (name: string, value: string) => void kept.set(name, value),
    removeItem: (name: string) => void kept.delete(name),
  } as Storage
  const shown: unknown[] = []
  const history = { replaceState: (_state, _title, path) => void shown.push(path) } as History
  const keyring = new Keyring({ pathname: '/screens/x/control', hash } as Location, history, storage)
  return { keyring, shown, kept }
}

test('the token of a link is kept, and taken out of the address', () => {
  const { keyring, shown } = opened(`#${token}`)
  expect([keyring.key, shown]).toEqual([token, ['/screens/x/control']])
})

test.each([token.slice(1), `${token}a`, `${token.slice(1)}%`, `${token.slice(1)}…`, '/', 'undefined'])(
  'a link with the token %s opens nothing, also not what an earlier one has opened',
  (malformed) => {
    const { kept } = opened(`#${token}`)
    const { keyring, shown } = opened(`#${malformed}`, kept)
    expect([keyring.key, shown]).toEqual([undefined, ['/screens/x/control']])
  },
)

test('a reload without a token goes on with the last ticket', () => {
  const { kept } = opened(`#${token}`)
  expect(opened('', kept).keyring.key).toBe(token)
})
