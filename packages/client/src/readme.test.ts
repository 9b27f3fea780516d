import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { desktop, desktopId, operation, succeeded } from './testing/samples.ts'
import { type Script, serve } from './testing/scripted-server.ts'

const folder = join(import.meta.dirname, '..')
const pinnedNode = join(folder, '../../node_modules/.bin/node')
const examples = [...readFileSync(join(folder, 'README.md'), 'utf8').matchAll(/```ts\n(.*?)```/gs)].map(
  ([, code]) => code!,
)

/** A terminal whose program has ended. */
const terminal: Script = ({ path, body }) => {
  const exec = { id: operation().id, desktop_id: desktopId, tty: true, state: 'exited', exit_code: 0 }
  if (path.endsWith('/stdin')) return { body: { next_offset: body.length } }
  if (!path.endsWith('/output')) return { body: { ...exec, stdin: { end: 0, open: true } } }
  return { headers: { 'dormouse-next-offset': '0', 'dormouse-output-end': 'true' }, body: '' }
}

const service: Script = (request, turn) => {
  const { method, path } = request
  if (path.includes('/execs')) return terminal(request, turn)
  if (path.endsWith('/orgs')) return { status: 201, body: { id: desktopId, name: 'acme' } }
  if (path.endsWith('/keys')) return { status: 201, body: { id: desktopId, api_key: 'svc_sk_made' } }
  if (path.endsWith('/exec')) return { body: { exit_code: 0, stdout: 'hello from mini\n' } }
  if (path.endsWith('/entries')) return { body: method === 'GET' ? { entries: [], next_cursor: null } : { entry: {} } }
  if (path.endsWith('/watch')) return { body: { changes: [{ type: 'written', path: '/srv/a' }], cursor: 'a' } }
  if (path === '/v1/events') return { body: 'id: 1\n\nid: 2\ndata: {"data":{"state":"destroyed"}}\n\n' }
  if (path === '/v1/desktops') return method === 'GET' ? { body: { desktops: [desktop()] } } : { body: desktop() }
  return path.endsWith('/wake') && method === 'POST' ? { status: 202, body: operation() } : { body: succeeded() }
}

// The wakes are replayed as settled once they are waited for.
const settling: Script = (request, turn) => (request.query.has('wait') ? { body: succeeded() } : service(request, turn))

test.each(examples)('the README’s example runs as it stands: %#', async (code) => {
  await using server = await serve(settling)
  const env = { DORMOUSE_URL: server.baseUrl, DORMOUSE_API_KEY: 'svc_sk_x', DORMOUSE_OPERATOR_KEY: 'svc_op_x' }
  const controller = new AbortController()
  onTestFinished(() => controller.abort())
  const ran = promisify(execFile)(pinnedNode, ['--input-type=module-typescript', '-e', code], {
    cwd: folder,
    env,
    signal: controller.signal,
  })
  expect((await ran).stderr).toBe('')
  expect(server.seen.length).toBeGreaterThan(1)
})
