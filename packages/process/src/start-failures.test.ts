// Guarantee: a start that failed on a file names the file, the reason, and the setting that leads to it; a secret's value is
// never shown.
import { mkdirSync, mkdtempDisposableSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { StartError, whyNotStarted } from './start-failures.ts'

const failing = (act: () => unknown): unknown => {
  try {
    act()
  } catch (error) {
    return error
  }
  throw new Error('it did not fail')
}

test('a file that is missing, or a folder, is named with the setting that leads to it', () => {
  using folder = mkdtempDisposableSync(join(tmpdir(), 'dormouse-start-'))
  const ca = join(folder.path, 'ca.pem')
  const why = (env: Record<string, string>) =>
    whyNotStarted(
      failing(() => readFileSync(ca)),
      env,
    )
  const url = `postgres://u:hunter2@h/d?sslrootcert=${ca}`
  expect(why({ DATABASE_URL: url })).toBe(
    `cannot use ${ca}: there is no such file or folder; create it, or correct DATABASE_URL`,
  )
  expect(why({ DATABASE_URL: url.replaceAll(ca, encodeURIComponent(ca)) })).toMatch(/, or correct DATABASE_URL$/)
  expect(why({ DORMOUSE_AGENT_STATE_DIR: folder.path, HOME: folder.path, DORMOUSE_NAME: '/' })).toMatch(
    /; create it, or correct DORMOUSE_AGENT_STATE_DIR or DORMOUSE_NAME$/,
  )
  expect(why({ DORMOUSE_AGENT_STATE_DIR: `${folder.path}x`, HOME: folder.path })).toMatch(/; create it$/)
  mkdirSync(ca)
  // Node does not name the path of a folder that it reads.
  const folderRead = Object.assign(failing(() => readFileSync(ca)) as Error, { path: ca })
  expect(whyNotStarted(folderRead, {})).toMatch(/: it is a folder; /)
})

test.each(['EACCES', 'EPERM', 'EROFS', 'ENOSPC', 'ENOTDIR', 'EMFILE'])('%s has a sentence', (code) => {
  const error = Object.assign(new Error(code), { code, path: '/etc/dormouse/key.pem', syscall: 'open' })
  expect(whyNotStarted(error, {})).toMatch(/^cannot use \/etc\/dormouse\/key\.pem: .+; .+/)
})

test('a reason that is a sentence is said as it is, and a bug keeps its stack', () => {
  expect(whyNotStarted(new StartError('port 80 is in use; set PORT'), {})).toBe('port 80 is in use; set PORT')
  expect(whyNotStarted(new TypeError('x is undefined'), {})).toBeUndefined()
  expect(whyNotStarted('thrown', {})).toBeUndefined()
})
