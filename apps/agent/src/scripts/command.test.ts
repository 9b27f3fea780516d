// Guarantee: in every shell that guests have, the requested program runs exactly as given, or is refused by name.
import { execFileSync, spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type ExecCommand, newId, Refusal } from '@dormouse/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { plainScript } from './command.ts'
import { execResultOf } from './exec-result.ts'

const shells = [['dash'], ['bash'], ['bash', '--posix'], ['busybox', 'sh']].filter(isThere)

function isThere([program, ...args]: string[]): boolean {
  return spawnSync(program!, [...args, '-c', 'true']).status === 0
}

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'dormouse-command-'))
  const program = (name: string, text: string) => {
    writeFileSync(join(folder, name), text)
    chmodSync(join(folder, name), 0o755)
  }
  for (const name of ['tools', '-', '-P', 'a folder']) mkdirSync(join(folder, name))
  for (const name of ['tools/mine', 'tools/-mine', 'tools/my=ne', 'tools/ls', 'here']) {
    program(name, '#!/bin/sh\nn=$0; printf "%s|" "$' + '{n##*/}" "$@" "$A"')
  }
  program('tools/uninterpreted', '#!/no/such/interpreter\n')
  writeFileSync(join(folder, 'tools/plain'), 'no program')
})
afterAll(() => rmSync(folder, { recursive: true }))

test('the shells of guests are here to be tested with', () => expect(shells.length).toBeGreaterThan(1))

describe.each(shells)('in %s %s', (...shell) => {
  const nonce = 'abc123'
  const run = (command: string | string[], more: Partial<Pick<ExecCommand, 'cwd' | 'env' | 'stdin'>> = {}) => {
    const request = { desktopId: newId(), generation: 1, command, cwd: folder, env: {}, stdin: null, timeoutSecs: 9 }
    const asked = { ...request, ...more }
    const [program, ...args] = shell.filter(Boolean)
    const maxBuffer = 64 * 1024 * 1024
    const input = plainScript(asked, nonce)
    const { status, stdout, stderr } = spawnSync(program!, [...args, '-s'], { cwd: folder, input, maxBuffer })
    try {
      return execResultOf({ exitCode: status ?? undefined, signal: undefined, stdout, stderr }, nonce, asked, 1).stdout
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      return `${error.code}: ${error.detail}`
    }
  }
  const tools = () => ({ PATH: `${folder}/tools:/usr/bin:/bin` })

  test('a program is looked up in the PATH of its own environment, whatever its name', () => {
    expect(run(['mine', '-x', 'a b'], { env: tools() })).toBe('mine|-x|a b||')
    expect(run(['-mine', '--'], { env: { ...tools(), A: '1' } })).toBe('-mine|--|1|')
    expect(run(['my=ne', 'B=2'], { env: { ...tools(), A: '1' } })).toBe('my=ne|B=2|1|')
    expect(run(['ls', 'x'], { env: tools() })).toBe('ls|x||')
    expect(run(['here'], { env: { PATH: '' } })).toBe('here||')
    expect(run(['here'], { env: { PATH: '/usr/bin:' } })).toBe('here||')
    expect(run(['./here', '~', '$A', '*'])).toBe('here|~|$A|*||')
    expect(run(['./mine'], { cwd: `${folder}/tools` })).toBe('mine||')
  })

  test('what is no program is refused by its name, also what a shell has of its own', () => {
    for (const name of ['cd', 'export', ':', 'mine', 'no-such', '', './no-such'])
      expect(run([name])).toContain(`command_not_run: the guest has no program "${name}"`)
    expect(run(['tools'])).toContain('no program "tools"')
    expect(run(['./tools'])).toContain('no program "./tools"')
    expect(run(['plain'], { env: tools() })).toContain('cannot execute "plain"')
    expect(run(['./tools/plain'])).toContain('cannot execute "./tools/plain"')
    expect(run(['./tools/uninterpreted'])).toContain('could not start "./tools/uninterpreted"')
    expect(run(['uninterpreted'], { env: tools() })).toContain('could not start "uninterpreted"')
    expect(run(['sh'], { env: { PATH: '/no/such' } })).toContain('no program "sh"')
  })

  test('a folder is the one of that name, and prints nothing; another is refused by its name', () => {
    for (const cwd of ['-', '-P', 'a folder', '.', 'tools/../-']) {
      const there = execFileSync('pwd', { cwd: join(folder, cwd), encoding: 'utf8' })
      expect(run('pwd -P', { cwd })).toBe(there)
    }
    for (const cwd of ['~', '--', 'no-such', '/no/such', '$HOME'])
      expect(run('pwd', { cwd })).toContain(`command_not_run: the guest has no folder "${cwd}"`)
    expect(run('pwd', { cwd: 'here' })).toContain('command_not_run: "here" is not a folder')
  })

  test('variables reach the command whole and change nothing before it', () => {
    const env = { IFS: 'x', ENV: '/no/such', BASH_ENV: '/no/such', PWD: '/nowhere', CDPATH: '/', PPID: '1', UID: '7' }
    const odd = { '-i': 'a', 'a.b': 'c=d', LD_PRELOAD: '/no/such.so', HOME: '' }
    const found = run(['env', '-0'], { env: { ...env, ...odd, PATH: '/usr/bin:/bin' } }).split('\0')
    for (const [name, value] of Object.entries({ ...env, ...odd })) expect(found).toContain(`${name}=${value}`)
  })

  test('as much as Linux takes as one argument or variable runs, and what it refuses is refused here', () => {
    const most = 'x'.repeat(131_071)
    expect(run(['printf', '%s', most])).toHaveLength(most.length)
    expect(run(['sh', '-c', 'printf %s "$A"'], { env: { A: most.slice(2) } })).toHaveLength(most.length - 2)
    expect(run(`${' '.repeat(131_064)}echo it`)).toBe('it\n')
    expect(run(['/usr/bin/printf', '%s', `${most}x`])).toContain('"/usr/bin/printf": Argument list too long')
    expect(run(['/usr/bin/env'], { env: { A: most } })).toContain('"/usr/bin/env": Argument list too long')
  })

  test('a command that ends as a program that cannot start does is its own', () => {
    expect(run('nosuch; echo sh: nosuch: not found >&2; exit 127')).toBe('')
    expect(run(['sh', '-c', 'env nosuch; exit 127'])).toBe('')
    expect(run(['sh', '-c', 'exec nosuch'])).toBe('')
  })
})
