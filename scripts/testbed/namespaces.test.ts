// Guarantee: the shell text that runs as root means what it should.
import { expect, test } from 'vitest'
import { coverRun, quote } from './namespaces.ts'
import { run } from './processes.ts'

test.each(['plain', "it's", '$(reboot) `x` "y" \\', 'two\nlines'])(
  'shell reads %j as one word, unchanged',
  async (word) => {
    expect(await run('sh', ['-c', `printf %s ${quote(word)}`])).toBe(word)
  },
)

test('every folder is opened before /run is covered, and closed again after it is mounted', () => {
  const script = coverRun({ one: "/run/it's here", two: '/b' })
  const lines = script.split('\n')
  const covered = lines.findIndex((line) => line.includes('tmpfs'))
  expect(lines.flatMap((line, i) => (/^exec \d< /.test(line) ? [i < covered] : []))).toEqual([true, true])
  expect(lines.flatMap((line, i) => (/^exec \d<&-/.test(line) ? [i > covered] : []))).toEqual([true, true])
})
