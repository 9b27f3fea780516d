// Guarantee: no desktop gets or keeps a key that its host cannot use.
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newId, Refusal } from '@dormouse/contract'
import ssh2 from 'ssh2'
import { expect, test } from 'vitest'
import { newPair, SshKeys } from './keys.ts'

test('each of a thousand key pairs can be read, signs and verifies', () => {
  const text = Buffer.from('text')
  const readable = Array.from({ length: 1_000 }, newPair).filter((pair) => {
    const [ours, theirs] = [ssh2.utils.parseKey(pair.private), ssh2.utils.parseKey(pair.public)]
    return !(ours instanceof Error) && !(theirs instanceof Error) && theirs.verify(text, ours.sign(text)) === true
  })
  expect(readable).toHaveLength(1_000)
})

test('a stored pair that cannot be read counts as none, so that another is exchanged', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'dormouse-keys-'))
  const [broken, whole] = [newId(), newId()]
  const keep = (id: string, privateKey: string) =>
    writeFileSync(join(folder, `${id}.json`), JSON.stringify({ privateKey, hostKey: 'AAAA' }))
  keep(broken, newPair().private.replace(/\n.{20}/, '\n'))
  const { private: privateKey } = newPair()
  keep(whole, privateKey)
  const keys = new SshKeys(folder)
  expect(await keys.read(broken)).toBeUndefined()
  expect(await keys.read(whole)).toEqual({ privateKey, hostKey: 'AAAA' })
  rmSync(folder, { recursive: true })
})

test('if the guest gives no key, no pair is stored', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'dormouse-keys-'))
  const id = newId()
  const refused = new SshKeys(folder).exchange(id, () => Promise.reject(new Refusal('guest_unavailable')))
  await expect(refused).rejects.toMatchObject({ code: 'guest_unavailable' })
  expect(existsSync(join(folder, `${id}.json`))).toBe(false)
  rmSync(folder, { recursive: true })
})
