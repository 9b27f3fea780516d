// Guarantee: scripts/drain-host has the exit codes that its help lists.
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const script = join(import.meta.dirname, 'drain-host')
const run = (args: string[], cli = '') =>
  spawnSync(script, args, { encoding: 'utf8', env: { ...process.env, DORMOUSE_CLI: cli } })

test('the help lists every exit code, and no argument is wrong usage', () => {
  const { status, stdout } = run(['--help'])
  expect(status).toBe(0)
  for (const code of [0, 1, 2, 3, 4, 130]) expect(stdout).toMatch(new RegExp(`^  ${code}[ ,]`, 'm'))
  expect(run([])).toMatchObject({ status: 2, stdout: '' })
})

test.each([
  [0, 0],
  [9, 3],
  [10, 4],
  [2, 2],
  [6, 1],
  [130, 130],
])('when the CLI exits with %i, it exits with %i', (cli, expected) => {
  // The arguments end up as the positional parameters of `sh -c`.
  const { status, stdout } = spawnSync(script, ['hv-3', '--json'], {
    encoding: 'utf8',
    env: { ...process.env, DORMOUSE_CLI: `${join(import.meta.dirname, 'testing/exits-with')} ${cli}` },
  })
  expect([status, stdout]).toEqual([expected, 'admin host drain hv-3 --json\n'])
})
