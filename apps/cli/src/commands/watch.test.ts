import { desktopId } from '@dormouse/client/testing/samples'
import { problem } from '@dormouse/client/testing/scripted-server'
import { expect, test } from 'vitest'
import { start } from '../testing/process.ts'

const change = { type: 'moved', path: '/srv/a', exact_path: true, folder: false, to: '/srv/b\x1b[2J' }
const overflow = { type: 'overflow', path: null, exact_path: true, folder: false, to: null }

test('changes are shown line by line, no name changes the terminal, and what ends the watch is told', async () => {
  const { dormouse, seen } = await start((_request, turn) => {
    if (turn === 0) return { body: { changes: [], cursor: 'one' } }
    if (turn === 1) return { body: { changes: [change, overflow], cursor: 'two' } }
    return problem(404, 'file_not_found', 'there is no such folder in the guest')
  })
  const { code, stdout, stderr } = await dormouse(['watch', '-r', `${desktopId}:srv`])
  expect([code, stdout.split('\n')]).toEqual([
    3,
    ['moved       /srv/a -> "/srv/b\\u001b[2J"', 'overflow    changes may be missing; list the folder again', ''],
  ])
  expect(stderr).toContain('there is no such folder')
  expect([seen[0]!.query.get('path'), seen[0]!.query.get('recursive')]).toEqual(['/srv', 'true'])
})

test('Ctrl-C ends it without a word, and ends the watch', async () => {
  let interrupt = () => {}
  const { dormouse, seen } = await start((_request, turn) => {
    if (turn === 0) return { body: { changes: [], cursor: 'one' } }
    if (turn > 1) return { status: 204 }
    interrupt()
    return 'hang'
  })
  const ended = await dormouse(['watch', `${desktopId}:/srv`], {
    whileRunning: (child) => {
      interrupt = () => child.kill('SIGINT')
    },
  })
  expect(ended).toEqual({ code: 130, stdout: '', stderr: '' })
  expect(seen.at(-1)).toMatchObject({ method: 'DELETE' })
})
