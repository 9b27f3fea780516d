// Guarantee: however the program is called, it ends as it should, and a start that fails says last why.
import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempDisposableSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, test } from 'vitest'

/** SIGTERM is sent when it logs `until`. */
async function ended(words: string[], env: Record<string, string>, until?: string) {
  const main = join(import.meta.dirname, 'main.ts')
  const child = spawn(process.execPath, [main, ...words], { env: { PATH: process.env.PATH!, ...env } })
  child.stdout.on('data', (said: Buffer) => until !== undefined && said.includes(until) && child.kill('SIGTERM'))
  const code = new Promise((resolve) => child.on('close', resolve))
  const said = await Promise.all([text(child.stdout), text(child.stderr)])
  const lines = said.join('').trim().split('\n')
  return { code: await code, first: lines[0]!, last: lines.at(-1)! }
}

test('a version, an argument and an identity that are wrong, and the end of a wait', async () => {
  using folder = mkdtempDisposableSync(join(tmpdir(), 'dormouse-agent-'))
  const at = (name: string) => {
    mkdirSync(join(folder.path, name))
    // Nobody listens on this port.
    return { DORMOUSE_AGENT_CONTROL_PLANES: 'http://127.0.0.1:9', DORMOUSE_AGENT_STATE_DIR: join(folder.path, name) }
  }
  const broken = at('broken')
  writeFileSync(join(broken.DORMOUSE_AGENT_STATE_DIR, 'identity.json'), '{"key":"secret"')
  const waiting = { ...at('waiting'), DORMOUSE_AGENT_ENROL_TOKEN: 'x', DORMOUSE_AGENT_STATEDIR: '/x' }
  const [version, argument, identity, wait] = await Promise.all([
    ended(['--version'], {}),
    ended(['--nope'], {}),
    ended([], broken),
    ended([], waiting, 'it is retried'),
  ])
  expect([version.code, version.last]).toEqual([0, expect.stringMatching(/^\d+\.\d+\.\d+$/)])
  expect([argument.code, argument.last]).toEqual([2, "unknown option '--nope'; see --help"])
  expect(identity.code).toBe(1)
  expect(identity.last).toMatch(/identity\.json is not the identity of a host; restore it, or enrol.*"could not start"/)
  expect(identity.last).not.toMatch(/"stack"|secret/)
  expect(wait.first).toContain('DORMOUSE_AGENT_STATEDIR is not a setting of this program')
  expect(wait.first).toContain('DORMOUSE_AGENT_STATE_DIR')
  expect([wait.code, wait.last]).toEqual([0, expect.stringContaining('"closed"')])
})
