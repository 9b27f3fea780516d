// Guarantee: a control plane that migrates its database is waited for as long as that goes on, and no other is.
import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { untilReady } from './readiness.ts'

const patienceMs = 100

function logOf(text: string) {
  const folder = mkdtempSync(join(tmpdir(), 'dormouse-readiness-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const logFile = join(folder, 'control plane.log')
  writeFileSync(logFile, text)
  return logFile
}

test('one whose migration goes on is waited for, and its user hears so', async () => {
  const logFile = logOf('')
  const said: string[] = []
  const isReady = async () => {
    appendFileSync(logFile, '{"migration":"0099-large.sql","secs":5,"msg":"a migration is under way"}\n')
    return said.length === 3
  }
  await untilReady({ isReady, logFile, say: (line) => said.push(line), patienceMs })
  expect(said).toEqual(Array(3).fill(`the control plane still migrates its database; its log: ${logFile}`))
})

test('one that says nothing new of a migration is given up', async () => {
  const logFile = logOf('{"msg":"a migration is under way"}\n')
  const isReady = async () => {
    appendFileSync(logFile, '{"msg":"applying a migration"}\n')
    return false
  }
  const waiting = untilReady({ isReady, logFile, say: () => undefined, patienceMs })
  await expect(waiting).rejects.toThrow(`did not become ready; its log: ${logFile}`)
})
