// Guarantee: a run that cannot go on ends, and whatever it has started is stopped, also what starts while it ends.
import { mkdtempDisposableSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { readOptions } from './options.ts'
import { openRun } from './run.ts'

function run(folder: string) {
  vi.spyOn(console, 'log').mockImplementation(() => undefined)
  const opened = openRun(readOptions([], { DORMOUSE_DATA: join(folder, 'data') }, folder))
  const stopped: string[] = []
  const start = (name: string) => opened.onStop(name, async () => void stopped.push(name))
  return { opened, stopped, start }
}

test('what fails while the parts start ends the start', async () => {
  using folder = mkdtempDisposableSync(join(tmpdir(), 'dormouse-run-'))
  const { opened } = run(folder.path)
  const starting = Promise.race([new Promise(() => undefined), opened.failed])
  opened.fail('the database was removed')
  await expect(starting).rejects.toThrow('the database was removed')
  await opened.stopAll()
})

test('what is registered last stops first, and what is registered after that stops at once', async () => {
  using folder = mkdtempDisposableSync(join(tmpdir(), 'dormouse-run-'))
  const { opened, stopped, start } = run(folder.path)
  start('database')
  start('control plane')
  await opened.stopAll()
  expect(stopped).toEqual(['control plane', 'database'])
  start('agent')
  expect(stopped).toEqual(['control plane', 'database', 'agent'])
})
