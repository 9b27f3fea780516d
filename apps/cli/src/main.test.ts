import { chmodSync, chownSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { execScript, wasRemoved } from '@dormouse/client/testing/exec-script'
import { desktop, desktopId, operation, operationId } from '@dormouse/client/testing/samples'
import { expect, test } from 'vitest'
import { exitCodes } from './failures.ts'
import { cloneRoot, door, folder, pinnedNode, refusing, run, start } from './testing/process.ts'

const nowhere = { DORMOUSE_URL: undefined, DORMOUSE_API_KEY: undefined, DORMOUSE_OPERATOR_KEY: undefined }

test.each([
  [400, 'invalid_request', exitCodes.usage],
  [401, 'unauthenticated', exitCodes.denied],
  [403, 'forbidden', exitCodes.denied],
  [404, 'not_found', exitCodes.notFound],
  [409, 'wrong_state', exitCodes.conflict],
  [409, 'stale_generation', exitCodes.conflict],
  [409, 'operation_failed', exitCodes.operationFailed],
  [500, 'internal', exitCodes.failed],
])(
  '%i %s ends with its own exit code, the service’s sentence and a next step, stdout empty',
  async (status, code, exit) => {
    const extra = code === 'operation_failed' ? { operation_id: operationId } : {}
    const { dormouse } = await refusing(status, code, 'what happened', extra)
    const ended = await dormouse(['hibernate', desktopId])
    expect(ended).toMatchObject({ code: exit, stdout: '' })
    expect(ended.stderr).toMatch(
      status === 500 ? /^dormouse: what happened\n$/ : /^dormouse: what happened\nNext step: .+\n$/,
    )
  },
)

test('with --json a failure is one line of JSON on stderr', async () => {
  const { dormouse } = await refusing(409, 'operation_failed', 'it broke', { operation_id: operationId })
  const { stdout, stderr } = await dormouse(['hibernate', desktopId, '--json'])
  expect([stdout, stderr.split('\n').length]).toEqual(['', 2])
  expect(JSON.parse(stderr)).toEqual({
    code: 'operation_failed',
    message: 'it broke',
    status: 409,
    operation_id: operationId,
    next_step: `\`dormouse operations ${desktopId}\` shows what failed`,
  })
})

test.each([
  ['wake', 409, 'wrong_state', { state: 'awake' }, 'nothing to do'],
  ['hibernate', 409, 'wrong_state', { state: 'hibernated' }, `dormouse wake ${desktopId}`],
  ['hibernate', 409, 'wrong_state', { state: 'waking' }, `dormouse operations ${desktopId}`],
  ['wake', 409, 'wrong_state', { state: 'failed' }, `dormouse destroy ${desktopId}, then`],
  ['wake', 409, 'wrong_state', {}, `dormouse get ${desktopId}`],
  ['wake', 409, 'operation_failed', { cause_code: 'image_unavailable' }, `dormouse destroy ${desktopId}`],
  ['wake', 409, 'operation_failed', {}, `dormouse operations ${desktopId}`],
  ['wake', 400, 'invalid_request', { field: 'id' }, 'dormouse list'],
  ['wake', 400, 'invalid_request', { field: 'wait' }, 'dormouse wake --help'],
  ['clipboard get', 409, 'clipboard_unavailable', {}, 'dormouse images'],
  ['screenshot', 409, 'screen_too_large', {}, `dormouse resolution ${desktopId}`],
  ['open', 409, 'claim_held', { claim: 'view' }, `dormouse open ${desktopId} --takeover --view`],
  ['open', 409, 'claim_held', { claim: 'control' }, `dormouse open ${desktopId} --takeover`],
  ['open', 409, 'claim_held', {}, 'the same command with --takeover'],
  ['screenshot', 409, 'not_awake', { state: 'destroyed' }, 'dormouse create'],
  ['screenshot', 409, 'not_awake', { state: 'failed' }, `dormouse destroy ${desktopId}, then`],
  ['screenshot', 409, 'not_awake', {}, `dormouse wake ${desktopId}`],
  ['create', 409, 'quota_exceeded', {}, 'dormouse destroy <id>'],
  ['screenshot', 504, 'guest_deadline', {}, `dormouse open ${desktopId}`],
])('%s refused with %i %s and %j names the command that helps', async (verb, status, code, fields, next) => {
  const extra = code === 'operation_failed' ? { operation_id: operationId, ...fields } : fields
  const { dormouse } = await refusing(status, code, 'what happened', extra)
  const args = verb === 'create' ? [verb] : [...verb.split(' '), desktopId]
  expect((await dormouse(args)).stderr.split('Next step: ')[1]).toContain(next)
})

test('a refusal that says itself what to do has no next step that does not help', async () => {
  const { dormouse } = await refusing(409, 'watch_limit', 'the desktop watches enough; end some watches')
  expect((await dormouse(['get', desktopId])).stderr).toBe('dormouse: the desktop watches enough; end some watches\n')
})

test.each([
  [
    ['list'],
    { DORMOUSE_API_KEY: 'svc_op_x' },
    /DORMOUSE_API_KEY is an operator key.*\nNext step: .*DORMOUSE_OPERATOR_KEY/,
  ],
  [
    ['admin', 'org', 'list'],
    { DORMOUSE_OPERATOR_KEY: 'svc_sk_x' },
    /DORMOUSE_OPERATOR_KEY is an API key of a customer.*\nNext step: .*DORMOUSE_API_KEY/,
  ],
])('%j with a key of the other kind says so, and sends nothing', async (args, env, message) => {
  const { dormouse, seen } = await start(() => ({ body: {} }))
  const { code, stderr } = await dormouse(args, { env })
  expect([code, seen]).toEqual([exitCodes.denied, []])
  expect(stderr).toMatch(message)
})

test.each([
  [['wke', desktopId], 'Did you mean wake', '`dormouse --help` lists the commands'],
  [['wake', desktopId, '--nowait'], 'Did you mean --no-wait', '`dormouse wake --help`'],
  [['admin', 'host', 'lst'], 'Did you mean list', '`dormouse admin host --help` lists the commands'],
  [['admin', 'host', 'list', '--jsn'], 'Did you mean --json', '`dormouse admin host list --help`'],
  [['events', '--type', 'desktop.stat'], 'did you mean "desktop.state"?', '`dormouse events --help`'],
  [['events', '--type', 'desktop.state', 'operation.faild'], 'did you mean "operation.failed"?', '--help'],
  [
    ['webhook', 'add', 'https://example.com', '--type', 'wakelock.taken'],
    '"wake_lock.taken"',
    '`dormouse webhook add --help`',
  ],
  [['events', '--type', 'nonsense'], 'The types are desktop.state, ', '`dormouse events --help`'],
])('%j suggests the nearest name, and names the help that lists them', async (args, meant, next) => {
  const { dormouse, seen } = await start(() => ({ body: {} }))
  const { code, stderr } = await dormouse(args)
  expect([code, seen]).toEqual([exitCodes.usage, []])
  expect(stderr).toContain(meant)
  expect(stderr).toContain(next)
})

test('a wait that finds the operation failed acts on its error code', async () => {
  const failed = operation({ state: 'failed', error: 'it broke', error_code: 'image_unavailable' })
  const { dormouse } = await start(() => ({ body: failed }))
  expect((await dormouse(['wake', desktopId])).stderr).toContain('dormouse create --image')
})

test.each([
  [['org', 'limit', 'acme', '--default'], 400, 'invalid_request', { field: 'id' }, 'dormouse admin org list'],
  [['key', 'list', '--org', 'acme'], 400, 'invalid_request', { field: 'org_id' }, 'dormouse admin org list'],
  [['org', 'limit', desktopId, '--default'], 404, 'not_found', {}, 'dormouse admin org list'],
  [['key', 'revoke', desktopId], 404, 'not_found', {}, 'dormouse admin key list --org <id>'],
  [['host', 'remove', 'nobody'], 404, 'not_found', {}, 'dormouse admin host list'],
  [['host', 'uninvite', desktopId], 404, 'not_found', {}, 'dormouse admin host invites'],
  [['operator-key', 'revoke', desktopId], 404, 'not_found', {}, 'dormouse admin operator-key list'],
  [['desktop', 'get', desktopId], 404, 'not_found', {}, 'dormouse admin desktop list'],
])('an operator’s %j refused with %i names the list that helps', async (args, status, code, fields, next) => {
  const { dormouse } = await refusing(status, code, 'what happened', fields)
  expect((await dormouse(['admin', ...args])).stderr.split('Next step: ')[1]).toContain(next)
})

test('--version says the package’s version', async () => {
  const { version } = JSON.parse(readFileSync(join(import.meta.dirname, '../package.json'), 'utf8'))
  expect(await run(pinnedNode, [door, '--version'])).toEqual({ code: 0, stdout: `${version}\n`, stderr: '' })
})

test('a service that is not there is said so, with the next step', async () => {
  const { dormouse } = await start(() => 'reset')
  const ended = await dormouse(['list'])
  expect(ended.code).toBe(exitCodes.unavailable)
  expect(ended.stderr).toMatch(/no response from http:.*\nNext step: check that the service runs/)
})

test('a wait that is out of time says how to go on', async () => {
  const { dormouse } = await start(({ query }) => (query.has('wait') ? 'hang' : { body: operation() }))
  // Enough for one answer on a starved machine.
  const ended = await dormouse(['wake', desktopId, '--timeout-secs', '3'])
  expect(ended.code).toBe(exitCodes.timedOut)
  expect(ended.stderr).toContain(`dormouse operation ${operationId} --wait`)
})

test.each([[['nope']], [['list', '--state', 'x']], [['wake']], [['create', '--idle-timeout-secs', '-1']], [[]]])(
  'wrong usage %j is 2, with help on stderr and nothing on stdout',
  async (args) => {
    const { dormouse } = await start(() => ({ body: {} }))
    const ended = await dormouse(args)
    expect(ended).toMatchObject({ code: exitCodes.usage, stdout: '' })
    expect(ended.stderr).toContain('--help')
  },
)

const commands = ['create', 'list', 'get', 'wake', 'hibernate', 'destroy', 'exec', 'operations', 'operation'].concat(
  ...['org create', 'org list', 'org limit', 'key create', 'key list', 'key revoke', 'host invite', 'host list'].map(
    (c) => `admin ${c}`,
  ),
)

test.each(commands)('%s has --json and an example in its help, and needs no service for it', async (command) => {
  const { code, stdout } = await run(pinnedNode, [door, ...command.split(' '), '--help'])
  expect(code).toBe(0)
  expect(stdout).toContain('--json')
  expect(stdout).toContain(`Example:\n  dormouse ${command}`)
})

test('every exit code stands in the help and in the README', async () => {
  const { stdout } = await run(pinnedNode, [door, '--help'])
  const readme = readFileSync(join(import.meta.dirname, '../README.md'), 'utf8')
  for (const code of Object.values(exitCodes)) {
    expect(stdout).toMatch(new RegExp(`^.*\\b${code}  \\S`, 'm'))
    expect(readme).toMatch(new RegExp(`^\\| ${code} +\\|`, 'm'))
  }
})

test('no output shows a key that was not just made', async () => {
  const { dormouse } = await refusing(401, 'unauthenticated', 'no such key')
  const outputs = [
    await dormouse(['list']),
    await dormouse(['admin', 'org', 'list']),
    await dormouse(['list'], { env: { DORMOUSE_API_KEY: 'svc_sk_secret\u00fc' } }),
    await dormouse(['list'], { env: { DORMOUSE_URL: 'http://127.0.0.1:1' } }),
  ]
  expect(JSON.stringify(outputs)).not.toContain('secret')
})

test('the local service is found from below its folder, from DORMOUSE_DATA, and nearest first', async () => {
  const { dormouse, baseUrl, seen } = await start(() => ({ body: { desktops: [] } }))
  const root = folder()
  const below = join(root, 'a/b')
  mkdirSync(below, { recursive: true })
  writeLocal(join(root, '.dormouse'), { base_url: baseUrl, api_key: 'svc_sk_outer', operator_key: 'svc_op_x' })
  expect((await dormouse(['list'], { env: nowhere, cwd: below })).code).toBe(0)
  writeLocal(join(root, 'a/.dormouse'), { base_url: baseUrl, api_key: 'svc_sk_inner', operator_key: 'svc_op_x' })
  await dormouse(['list'], { env: nowhere, cwd: below })
  writeLocal(join(root, 'data'), { base_url: baseUrl, api_key: 'svc_sk_data', operator_key: 'svc_op_x' })
  await dormouse(['list'], { env: { ...nowhere, DORMOUSE_DATA: join(root, 'data') }, cwd: below })
  const keys = seen.map(({ headers }) => headers.authorization)
  expect(keys).toEqual(['Bearer svc_sk_outer', 'Bearer svc_sk_inner', 'Bearer svc_sk_data'])
})

test('a local key is never sent to another address, and the environment’s key wins', async () => {
  const { dormouse, baseUrl, seen } = await start(() => ({ body: { desktops: [] } }))
  const root = folder()
  writeLocal(join(root, '.dormouse'), { base_url: 'http://127.0.0.1:1', api_key: 'svc_sk_local' })
  const env = { ...nowhere, DORMOUSE_URL: baseUrl }
  const ended = await dormouse(['list'], { env, cwd: root })
  expect(ended).toMatchObject({ code: exitCodes.denied, stderr: expect.stringContaining('DORMOUSE_API_KEY') })
  writeLocal(join(root, '.dormouse'), { base_url: baseUrl, api_key: 'svc_sk_local' })
  await dormouse(['list'], { env: { ...nowhere, DORMOUSE_API_KEY: 'svc_sk_env' }, cwd: root })
  expect(seen.map(({ headers }) => headers.authorization)).toEqual(['Bearer svc_sk_env'])
})

test('a folder without a service, and a damaged file, say the next step', async () => {
  const data = folder()
  const env = { DORMOUSE_DATA: data }
  expect(await run(pinnedNode, [door, 'list'], { env })).toMatchObject({
    code: exitCodes.unavailable,
    stderr: expect.stringContaining('npm start'),
  })
  writeFileSync(join(data, 'local.json'), '{"base_url":')
  expect(await run(pinnedNode, [door, 'list'], { env })).toMatchObject({ code: exitCodes.failed })
})

// Only root can give files away; root itself trusts all of them, so the command line runs as another user.
test.runIf(process.getuid?.() === 0)('a file of another user decides nothing', async () => {
  const root = folder()
  chmodSync(root, 0o755)
  writeLocal(join(root, '.dormouse'), { base_url: 'http://127.0.0.1:1', api_key: 'svc_sk_x' })
  chownSync(join(root, '.dormouse/local.json'), 12345, 12345)
  // Loaded first: the clone may be in a folder that only root may enter.
  const script = `import(${JSON.stringify(join(import.meta.dirname, 'service.ts'))}).then((service) => {
    process.setuid(54321)
    return service.findService({ env: {}, folders: [${JSON.stringify(root)}] }, "api_key")
  }).catch((error) => console.log(error.message))`
  expect((await run(pinnedNode, ['-e', script])).stdout).toContain('belongs to another user')
})

test('Ctrl-C stops the wait, not the operation, and says where to look', async () => {
  let interrupt = () => {}
  const { dormouse } = await start(({ query }) => {
    if (!query.has('wait')) return { status: 202, body: operation() }
    interrupt()
    return 'hang'
  })
  const ended = await dormouse(['wake', desktopId], {
    whileRunning: (child) => {
      interrupt = () => child.kill('SIGINT')
    },
  })
  expect(ended).toMatchObject({ code: exitCodes.interrupted, stdout: '' })
  expect(ended.stderr).toContain(`dormouse operations ${desktopId}`)
})

test('a reader that goes away ends it without a word', async () => {
  const desktops = Array.from({ length: 5000 }, () => desktop())
  const { env } = await start(() => ({ body: { desktops } }))
  const line = `"${pinnedNode}" "${door}" list | head -n 1; echo "\${PIPESTATUS[0]}"`
  const ended = await run('bash', ['--norc', '-c', line], { env })
  expect(ended.stderr).toBe('')
  expect(ended.stdout).toMatch(/^ID .*\n(141|0)\n$/)
})

test('a reader of `exec` that goes away ends the command', async () => {
  const { env, seen } = await start(execScript({ stdout: 'x\n'.repeat(4_000_000) }))
  const line = `"${pinnedNode}" "${door}" exec ${desktopId} -- yes | head -n 1; echo "\${PIPESTATUS[0]}"`
  expect(await run('bash', ['--norc', '-c', line], { env })).toMatchObject({ stdout: 'x\n141\n', stderr: '' })
  expect(wasRemoved(seen)).toBe(true)
})

test('the elapsed time runs on a terminal’s stderr, and is gone when it is over', async () => {
  const released = Promise.withResolvers<void>()
  const { env } = await start(async ({ query }) => {
    if (query.has('wait')) await released.promise
    return query.has('wait') ? { body: { ...operation(), state: 'succeeded' } } : { status: 202, body: operation() }
  })
  const line = `"${pinnedNode}" "${door}" wake ${desktopId} --json`
  let shown = ''
  const ended = await run('script', ['-qec', line, '/dev/null'], {
    env: { ...env, TERM: 'xterm' },
    whileRunning: (child) =>
      child.stdout?.on('data', (chunk) => {
        shown += chunk
        if (/waking \S+ (?!0\.[01])\d+\.\d s/.test(shown)) released.resolve()
      }),
  })
  expect(ended.code).toBe(0)
  expect(ended.stdout).toContain('\r\x1b[K{')
})

test('on a terminal, the wait shows how far the operation has come', async () => {
  const released = Promise.withResolvers<void>()
  const progress = { phase: 'waiting', done_bytes: null, total_bytes: null, queued_behind: 3 } as const
  const { env } = await start(async ({ method, query }) => {
    if (method === 'GET') {
      const saving = { phase: 'saving', done_bytes: 21, total_bytes: 50, queued_behind: null } as const
      return { body: operation({ progress: saving }) }
    }
    if (query.has('wait')) await released.promise
    return query.has('wait')
      ? { body: { ...operation(), state: 'succeeded' } }
      : { status: 202, body: operation({ progress }) }
  })
  let shown = ''
  await run('script', ['-qec', `"${pinnedNode}" "${door}" hibernate ${desktopId}`, '/dev/null'], {
    env: { ...env, TERM: 'xterm' },
    whileRunning: (child) =>
      child.stdout?.on('data', (chunk) => {
        shown += chunk
        if (shown.includes('saving, 42 %')) released.resolve()
      }),
  })
  expect(shown).toContain('waiting, 3 before it')
})

test('an older Node is told so', async () => {
  const old = `Object.defineProperty(process, 'versions', { value: { node: '20.1.0' } }); process.argv.splice(1, 1)
    import(${JSON.stringify(door)})`
  const ended = await run(pinnedNode, ['-e', old, 'x', 'list'])
  expect(ended.code).toBe(exitCodes.failed)
  expect(ended.stderr).toContain('needs Node 24 or later, and this is 20.1.0')
  expect(ended.stderr).toContain('npx dormouse')
})

test('npx runs it inside the clone, from any folder', async () => {
  const { env } = await start(() => ({ body: { desktops: [] } }))
  for (const cwd of [cloneRoot, join(cloneRoot, 'docs'), join(cloneRoot, 'packages/client/src')]) {
    const ended = await run('npx', ['--no-install', 'dormouse', 'list', '--json'], {
      env: { ...env, HOME: folder() },
      cwd,
    })
    expect(ended).toMatchObject({ code: 0, stdout: '{\n  "desktops": []\n}\n' })
  }
})

function writeLocal(data: string, content: object): void {
  mkdirSync(data, { recursive: true })
  writeFileSync(join(data, 'local.json'), JSON.stringify(content), { mode: 0o600 })
}

test('a misspelt variable is named on stderr, with the nearest one, and changes nothing; --json leaves stderr to failures', async () => {
  const { dormouse } = await refusing(409, 'wrong_state', 'what happened', { state: 'awake' })
  const env = { DORMOUSE_API_KYE: 'x', DORMOUSE_AGENT_NAME: 'x', DORMOUSE_IMAGES_DIR: '/x' }
  const plain = await dormouse(['wake', desktopId], { env })
  const [warning, ...failure] = plain.stderr.split('\n')
  expect(warning).toBe(
    'warning: DORMOUSE_API_KYE is not a setting of this program and is ignored; did you mean "DORMOUSE_API_KEY"?',
  )
  expect([plain.code, failure[0]]).toEqual([exitCodes.conflict, 'dormouse: what happened'])
  expect((await dormouse(['wake', desktopId, '--json'], { env })).stderr.split('\n')).toHaveLength(2)
})
