// The chapter "Endpoints", from fork on: the routes that reach into a guest, and usage.
import { newId } from '@dormouse/contract'
import { holds, problem, same, status } from './assertions.ts'
import { unauthenticated } from './endpoints.ts'
import type { Chapter } from './row.ts'

const mib = 1024 * 1024
const climbing = ['../x', 'a/../x', 'a/..', '%2e%2e/x', 'a%2f..%2fx']

const fork: Chapter['rows'] = [
  {
    id: 'fork.501',
    sentence: 'Not a working feature. Always 501',
    async check(context) {
      problem('fork', await context.post(`/v1/desktops/${await context.idle()}/fork`), 501)
    },
  },
  unauthenticated('fork.401', 'POST', (id) => `/v1/desktops/${id}/fork`),
]

const files: Chapter['rows'] = [
  {
    id: 'files.write',
    sentence:
      'Writes a file in the guest. The `{path}` parameter is sent without a leading slash; the server prepends it',
    async check(context) {
      const at = `/v1/desktops/${await context.awake()}`
      const put = await context.ask('PUT', `${at}/files/tmp/conformance-write`, { body: 'written' })
      status('write', put, 200)
      const { json } = await context.post(`${at}/exec`, { command: 'cat /tmp/conformance-write' })
      same('what the guest has at /tmp/conformance-write', json.stdout, 'written')
    },
  },
  {
    id: 'files.traversal',
    sentence: 'A path that traverses with `..` gives 400.',
    async check(context) {
      for (const path of climbing)
        problem(path, await context.ask('PUT', `/v1/desktops/${newId()}/files/${path}`, { body: 'x' }), 400)
    },
  },
  {
    id: 'files.413',
    sentence: 'A body over 8 MiB gives 413.',
    async check(context) {
      const path = `/v1/desktops/${await context.awake()}/files/tmp/conformance-large`
      status('8 MiB', await context.ask('PUT', path, { body: Buffer.alloc(8 * mib, 'x') }), 200)
      problem('a byte more', await context.ask('PUT', path, { body: Buffer.alloc(8 * mib + 1, 'x') }), 413)
    },
  },
  {
    id: 'files.409',
    sentence: 'A desktop that is not awake gives 409.',
    async check(context) {
      const path = `/v1/desktops/${await context.idle()}/files/tmp/x`
      problem('write', await context.ask('PUT', path, { body: 'x' }), 409)
    },
  },
  {
    id: 'files.503',
    sentence: 'A host that is unreachable gives 503.',
    needs: 'a host that can be cut off',
    provedBy: ['test/integration/files.test.ts', 'a desktop that is not awake is 409, a host that is away 503'],
  },
  {
    id: 'files.504',
    sentence: 'A guest deadline overrun gives 504.',
    needs: 'a guest that stands still',
    provedBy: ['test/integration/files.test.ts', 'a guest that stands still is 504'],
  },
  unauthenticated('files.401', 'PUT', (id) => `/v1/desktops/${id}/files/tmp/x`),
]

const exec: Chapter['rows'] = [
  {
    id: 'exec.result',
    sentence: 'The result carries an exit code, standard output and standard error.',
    async check(context) {
      const path = `/v1/desktops/${await context.awake()}/exec`
      const { json } = status('exec', await context.post(path, { command: 'echo out; echo err >&2; exit 7' }), 200)
      same('the result', [json.exit_code, json.stdout, json.stderr], [7, 'out\n', 'err\n'])
    },
  },
  {
    id: 'exec.timeout_secs',
    sentence: '`timeout_secs` (seconds; default 60 when omitted; values above 300 are clamped to 300, never rejected)',
    async check(context) {
      const path = `/v1/desktops/${await context.awake()}/exec`
      for (const timeout_secs of [undefined, 1, 300, 301, 1_000_000])
        status(`${timeout_secs}`, await context.post(path, { command: 'true', timeout_secs }), 200)
    },
  },
  {
    id: 'exec.clamp',
    sentence: 'values above 300 are clamped to 300',
    needs: 'five minutes',
    provedBy: ['test/integration/exec.test.ts', 'more than 300 s is 300 to the guest'],
  },
  {
    id: 'exec.409',
    sentence: '409 when the desktop is not awake',
    async check(context) {
      problem('exec', await context.post(`/v1/desktops/${await context.idle()}/exec`, { command: 'true' }), 409)
    },
  },
  {
    id: 'exec.503',
    sentence: '503 when its host is unreachable',
    needs: 'a host that can be cut off',
    provedBy: ['test/integration/exec.test.ts', 'a host that is away is 503 with Retry-After'],
  },
  {
    id: 'exec.504',
    sentence: '504 when the command passes its deadline in the guest',
    async check(context) {
      const path = `/v1/desktops/${await context.awake()}/exec`
      problem('sleep 5', await context.post(path, { command: 'sleep 5', timeout_secs: 1 }), 504)
      status('the next command', await context.post(path, { command: 'true' }), 200)
    },
  },
  unauthenticated('exec.401', 'POST', (id) => `/v1/desktops/${id}/exec`),
]

const stream: Chapter['rows'] = [
  {
    id: 'stream.result',
    sentence:
      'The request carries a claim (for example a view claim) and a takeover flag; the result carries a URL and an expiry time.',
    async check(context) {
      const path = `/v1/desktops/${await context.awake()}/stream`
      for (const body of [{ claim: 'view' }, { claim: 'view', takeover: true }]) {
        const { json } = status('stream', await context.post(path, body), 200)
        holds('url', json.url, 'a URL', URL.canParse(json.url))
        holds('expires_at', json.expires_at, 'a time to come', Date.parse(json.expires_at) > Date.now())
      }
    },
  },
  {
    id: 'stream.409',
    sentence: 'A claim already held by another client gives 409.',
    needs: 'a second key of the same organisation',
    provedBy: ['test/integration/streams.test.ts', 'each claim has one holder: another gets 409'],
  },
  {
    id: 'stream.takeover',
    sentence: 'The request carries a claim … and a takeover flag',
    needs: 'a second key of the same organisation',
    provedBy: ['test/integration/streams.test.ts', 'a takeover ends the old holder’s socket with 4001'],
  },
  unauthenticated('stream.401', 'POST', (id) => `/v1/desktops/${id}/stream`),
]

const usage: Chapter['rows'] = [
  {
    id: 'usage.200',
    sentence: 'Query parameters `start` and `end`, both numeric.',
    async check(context) {
      for (const query of ['', '?start=0', '?start=1000&end=2000.5', '?end=253402300799'])
        status(query, await context.get(`/v1/usage${query}`), 200)
    },
  },
  {
    id: 'usage.400',
    sentence: 'A non-numeric or out-of-range value gives 400.',
    async check(context) {
      const wrong = ['start=x', 'end=x', 'start=-1', 'start=1e99', 'end=253402300800', 'start=NaN', 'start=Infinity']
      for (const query of wrong) problem(query, await context.get(`/v1/usage?${query}`), 400)
    },
  },
  unauthenticated('usage.401', 'GET', () => '/v1/usage'),
]

export const guest: Chapter = {
  title: 'Endpoints: fork, guest, stream, usage',
  rows: [...fork, ...files, ...exec, ...stream, ...usage],
}
