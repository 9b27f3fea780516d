// Guarantee: the wait for a control plane is extended while it migrates its database, and only then.
import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { waitUntilReady } from './readiness.ts'

const timeoutMs = 100

function logOf(text: string) {
  const folder = mkdtempSync(join(tmpdir(), 'dormouse-readiness-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const logFile = join(folder, 'control plane.log')
  writeFileSync(logFile, text)
  return logFile
}

test('a migration that makes progress extends the wait, and the user is told', async () => {
  const logFile = logOf('')
  const said: string[] = []
  const isReady = async () => {
    appendFileSync(logFile, '{"migration":"0099-large.sql","secs":5,"waitsFor":[],"msg":"in progress"}\n')
    return said.length === 3
  }
  await waitUntilReady({ isReady, logFile, say: (line) => said.push(line), timeoutMs })
  expect(said).toEqual(Array(3).fill(`the control plane is still migrating its database; log: ${logFile}`))
})

test('without new reports of a migration the wait ends, with the last warning', async () => {
  const logFile = logOf('{"waitsFor":[],"msg":"in progress"}\n')
  const isReady = async () => {
    appendFileSync(
      logFile,
      '{"level":60,"time":"2100-01-01T00:00:00Z","msg":"could not start","err":{"message":"refused"}}\n',
    )
    return false
  }
  const waiting = waitUntilReady({ isReady, logFile, say: () => undefined, timeoutMs })
  await expect(waiting).rejects.toThrow(`was not ready within 0.1 s: could not start: refused; log: ${logFile}`)
})
