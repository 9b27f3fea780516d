// Guarantee: real shells complete commands, options and ids, by the table of commands, and a service that is unreachable is
// not in the way.
import { execFileSync } from 'node:child_process'
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { desktop, desktopId } from '@dormouse/client/testing/samples'
import { expect, test } from 'vitest'
import { door, folder, pinnedNode, run, start } from '../testing/process.ts'

const other = '019a9f00-0000-7000-8000-000000000002'

const service = (ids = [desktopId, other]) =>
  start(({ path }) => ({
    body: path.startsWith('/admin/v1/hosts')
      ? { hosts: [{ id: other, name: 'rack4-2', state: 'up' }] }
      : { desktops: ids.map((id) => desktop({ id })) },
  }))

/** What the last word may become, without descriptions. */
async function offered(words: string[], env: Record<string, string | undefined> = {}) {
  const { dormouse } = await service()
  const { stdout } = await dormouse(['complete', '--plain', '--', ...words], { env })
  return stdout.split('\n').slice(0, -1)
}

test.each([
  [['wa'], ['wake', 'watch']],
  [['admin', 'host', 'unc'], ['uncordon']],
  [
    ['create', '--tier', ''],
    ['small', 'default', 'large'],
  ],
  [['create', '--tier=s'], ['--tier=small']],
  [['list', '--j'], ['--json']],
  [['list', '--json', '--li'], ['--limit']],
  [
    ['wake', ''],
    [desktopId, other],
  ],
  [
    ['wake', '--json', other.slice(0, -1)],
    [desktopId, other],
  ],
  [['events', '--desktop', other], [other]],
  [['ls', other], [`${other}:`]],
  [
    ['cp', ''],
    [`${desktopId}:`, `${other}:`, ':files'],
  ],
  [['cp', 'notes.txt', `${other}:/srv/`], []],
  [['screenshot', desktopId, ''], [':files']],
  [['wake', desktopId, ''], []],
  [['exec', desktopId, '--', 'ls', '--j'], []],
  [['admin', 'host', 'drain', 'r'], ['rack4-2']],
  [['admin', 'desktop', 'move', desktopId, '--to', ''], ['rack4-2']],
  [['nonsense', ''], []],
  [['complet'], ['completion']],
])('%j becomes %j', async (words, expected) => {
  expect(await offered(words)).toEqual(expected)
})

test('ids are those of the profile that the line names, and profiles are offered', async () => {
  const { baseUrl, seen } = await service()
  const HOME = folder()
  const profiles = join(HOME, '.config/dormouse/profiles')
  mkdirSync(profiles, { recursive: true })
  writeFileSync(join(profiles, 'work.json'), JSON.stringify({ base_url: baseUrl, api_key: 'svc_sk_work' }))
  expect(await offered(['list', '--profile', ''], { HOME })).toEqual(['work'])
  expect(await offered(['wake', '--profile', 'work', desktopId], { HOME })).toEqual([desktopId])
  expect(seen.map(({ headers }) => headers.authorization)).toEqual(['Bearer svc_sk_work'])
})

test('a service that is unreachable, or that never answers, offers nothing and says nothing', async () => {
  const none = { DORMOUSE_URL: undefined, DORMOUSE_API_KEY: undefined }
  const { dormouse } = await start(() => 'hang')
  for (const env of [{}, { DORMOUSE_URL: 'http://127.0.0.1:9' }, none])
    expect(await dormouse(['complete', '--', 'wake', ''], { env })).toEqual({ code: 0, stdout: '', stderr: '' })
})

const isInstalled = (shell: string) => {
  try {
    execFileSync(shell, ['--version'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

/** Completes the line in a real shell, and prints what it shows then; `end` is in it. */
const inShell: Record<string, { flags: string[]; script(line: string, end: string): string }> = {
  bash: {
    flags: ['--norc', '-c'],
    script: (line) => `source <(dormouse completion bash)
      COMP_LINE='${line}' COMP_POINT=${line.length} _dormouse 2>/dev/null
      printf '%s\\n' "\${COMPREPLY[@]}"`,
  },
  // With a line editor in a terminal of zsh's own.
  zsh: {
    flags: ['-f', '-c'],
    script: (line, end) => `zmodload zsh/zpty
      zpty shell zsh -f -i
      shows() { while [[ $shown != *$1* ]] && zpty -r shell some '*'; do shown+=$some; done }
      zpty -w shell 'autoload -Uz compinit; compinit -u -d $HOME/dump; source <(dormouse completion zsh); echo rea''dy'
      shows ready
      zpty -w -n shell '${line}'$'\\t'
      shows '${end}'
      print -r -- $shown`,
  },
  fish: { flags: ['--no-config', '-c'], script: (line) => `dormouse completion fish | source; complete -C '${line}'` },
}

test.each(Object.keys(inShell).filter(isInstalled))('%s completes a command and an id', async (shell) => {
  const { env } = await service([desktopId])
  const HOME = folder()
  symlinkSync(door, join(HOME, 'dormouse'))
  const PATH = [HOME, join(pinnedNode, '..'), process.env.PATH].join(delimiter)
  const { flags, script } = inShell[shell]!
  for (const [line, end] of [
    ['dormouse hib', 'ernate'],
    ['dormouse ls ', `${desktopId}:`],
  ] as const) {
    const { stdout } = await run(shell, [...flags, script(line, end)], { env: { ...env, HOME, PATH, TERM: 'xterm' } })
    expect(stdout).toContain(end)
  }
})
