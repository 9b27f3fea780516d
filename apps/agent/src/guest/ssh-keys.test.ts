// Guarantee: no desktop is given a key that its host cannot use, or keeps one.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newId } from '@dormouse/contract'
import ssh2 from 'ssh2'
import { expect, test } from 'vitest'
import { newPair, SshKeys } from './ssh-keys.ts'

test('of a thousand pairs each can be read and says who it is', () => {
  const word = Buffer.from('word')
  const readable = Array.from({ length: 1_000 }, newPair).filter((pair) => {
    const [ours, theirs] = [ssh2.utils.parseKey(pair.private), ssh2.utils.parseKey(pair.public)]
    return !(ours instanceof Error) && !(theirs instanceof Error) && theirs.verify(word, ours.sign(word)) === true
  })
  expect(readable).toHaveLength(1_000)
})

test('a pair that was kept and cannot be read counts as none, so that another is exchanged', async () => {
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
