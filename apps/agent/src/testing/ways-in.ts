// Every command that reaches into a desktop's guest, with a request that a guest answers. A new command does not compile without.
import { type CommandName, type CommandPayload, newId, Refusal } from '@dormouse/contract'
import type { AnyDriver } from '../make-driver.ts'
import type { Bench } from './bench.ts'

/** `input.interrupt` reaches a batch, and no guest. */
type WayIn = Exclude<CommandName, `${'desktop' | 'host' | 'move' | 'image'}.${string}` | 'input.interrupt'>

const channel = 'channel-of-a-test'
const timeoutSecs = 10
const path = '/tmp/way-in'
const steps = { stepTimeoutSecs: timeoutSecs, queueTimeoutSecs: timeoutSecs }
const started = { command: 'true', cwd: null, env: {} }

function waysIn(desktopId: string, generation: number): { [N in WayIn]: CommandPayload<N> } {
  const to = { desktopId, generation }
  const file = { ...to, path, channel, ...steps }
  const [exec, watch] = [
    { ...to, execId: newId() },
    { ...to, watchId: newId() },
  ]
  const briefly = { offset: 0, waitMs: 1 }
  const screen = { space: null, expectedScreen: null, paceMs: 1, settle: null }
  return {
    'stream.open': { ...to, channel, claim: 'view' },
    'screen.look': { ...to, wait: null, after: null, settle: { quietMs: 1, maxMs: 1 }, picture: null, share: '' },
    'input.perform': { ...to, batchId: newId(), actions: [{ type: 'move', x: 1, y: 1 }], ...screen },
    'clipboard.read': to,
    'clipboard.write': { ...to, text: 'x' },
    'guest.exec': { ...to, ...started, stdin: null, timeoutSecs },
    'guest.writeFile': { ...file, mode: null, owner: null },
    'guest.readFile': { ...file, range: null, ifVersion: null },
    'guest.uploadStep': { ...to, path, uploadId: newId(), step: 'measure', size: null, mode: null, owner: null },
    'guest.appendUpload': { ...file, uploadId: newId(), offset: 0 },
    'guest.readArchive': { ...file, path: '/tmp' },
    'guest.writeArchive': { ...file, path: '/tmp/way-in-too', owner: null },
    'guest.listEntries': { ...to, path: '/tmp', depth: 1, after: null, limit: 1, timeoutSecs },
    'guest.changeEntry': { ...to, change: { action: 'remove', path, recursive: false }, timeoutSecs },
    'exec.start': {
      ...exec,
      ...started,
      hasInput: false,
      tty: null,
      timeoutSecs,
      keepAwake: false,
      waitForReader: false,
    },
    'exec.list': to,
    'exec.get': exec,
    'exec.read': { ...exec, stream: 'stdout', maxBytes: 1, ...briefly },
    'exec.write': { ...exec, data: '', ends: false, ...briefly },
    'exec.signal': { ...exec, signal: 15 },
    'exec.resize': { ...exec, size: { cols: 80, rows: 24 } },
    'exec.remove': exec,
    'watch.start': { ...watch, path: '/tmp', recursive: false },
    'watch.read': { ...watch, ...briefly },
    'watch.remove': watch,
  }
}

export const wayNames = Object.keys(waysIn(newId(), 1))

/** Those that are not refused because the desktop is not awake, each with its outcome. */
export async function reached(
  bench: Pick<Bench<AnyDriver>, 'ask'>,
  desktopId: string,
  generation = 1,
): Promise<Record<string, string>> {
  const ways = Object.entries(waysIn(desktopId, generation)) as [WayIn, CommandPayload<WayIn>][]
  const outcomeOf = (error: unknown) => (error instanceof Refusal ? `${error.code}: ${error.detail}` : String(error))
  const tried = ways.map(async ([name, payload]) => {
    const outcome = await bench.ask(name, payload).then(() => 'done', outcomeOf)
    return [name, outcome] as const
  })
  const outcomes = await Promise.all(tried)
  return Object.fromEntries(outcomes.filter(([, outcome]) => !outcome.startsWith('not_awake: ')))
}
