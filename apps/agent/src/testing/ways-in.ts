// Every way into a desktop's guest, with a request that a guest answers. A new command, call or stream does not compile without.
import {
  type CommandName,
  type CommandPayload,
  type GuestCallBody,
  type GuestCallName,
  type GuestStreamBody,
  type GuestStreamName,
  newId,
  Refusal,
} from '@dormouse/contract'
import type { AnyDriver } from '../make-driver.ts'
import type { Bench } from './bench.ts'

/** `input.interrupt` reaches a batch, the others the host: no guest. */
type WayIn = Exclude<
  CommandName,
  | `${'agent' | 'copy' | 'desktop' | 'guest' | 'host' | 'image' | 'key' | 'move' | 'vault'}.${string}`
  | 'input.interrupt'
>

const channel = 'channel-of-a-test'
const timeoutSecs = 10
const path = '/tmp/way-in'
const steps = { stepTimeoutSecs: timeoutSecs, queueTimeoutSecs: timeoutSecs }

function commandsIn(desktopId: string, generation: number): { [N in WayIn]: CommandPayload<N> } {
  const to = { desktopId, generation }
  const screen = { space: null, expectedScreen: null, paceMs: 1, settle: null }
  return {
    'stream.open': { ...to, channel, claim: 'view' },
    'screen.look': { ...to, wait: null, after: null, settle: { quietMs: 1, maxMs: 1 }, picture: null, share: '' },
    'input.perform': { ...to, batchId: newId(), actions: [{ type: 'move', x: 1, y: 1 }], ...screen },
    'clipboard.read': to,
    'clipboard.write': { ...to, text: 'x' },
  }
}

function callsIn(): { [N in GuestCallName]: GuestCallBody<N> } {
  const [exec, watch] = [{ id: newId() }, { id: newId() }]
  const briefly = { offset: 0, wait_ms: 1 }
  return {
    exec: { command: 'true', timeout_secs: timeoutSecs },
    'exec.start': { ...exec, command: 'true', env: {}, timeout_secs: timeoutSecs },
    'exec.list': {},
    'exec.get': exec,
    'exec.read': { ...exec, stream: 'stdout', max_bytes: 1, ...briefly },
    'exec.write': { ...exec, data: '', eof: false, ...briefly },
    'exec.signal': { ...exec, signal: 15 },
    'exec.resize': { ...exec, cols: 80, rows: 24 },
    'exec.remove': exec,
    'watch.start': { ...watch, path: '/tmp', recursive: false },
    'watch.read': { ...watch, ...briefly },
    'watch.remove': watch,
    'entry.list': { path: '/tmp', depth: 1, cursor: null, limit: 1 },
    'entry.change': { action: 'remove', path, recursive: false },
    'upload.step': { id: newId(), path, step: 'measure', size: null, mode: null, owner: null },
  }
}

function streamsIn(): { [N in GuestStreamName]: GuestStreamBody<N> } {
  return {
    'file.read': { path, range: null, if_version: null },
    'file.write': { path, mode: null, owner: null },
    'upload.append': { path, id: newId(), offset: 0 },
    'archive.read': { path: '/tmp' },
    'archive.write': { path: '/tmp/way-in-too', owner: null },
  }
}

/** The label of each, its command and the payload. */
function waysIn(desktopId: string, generation: number): [label: string, name: CommandName, payload: object][] {
  const to = { desktopId, generation }
  const called = Object.entries(callsIn()).map(
    ([call, body]) => [call, 'guest.call', { ...to, call, body, timeoutSecs }] as [string, CommandName, object],
  )
  const streamed = Object.entries(streamsIn()).map(
    ([stream, body]) => [stream, 'guest.stream', { ...to, stream, body, channel, ...steps }] as (typeof called)[number],
  )
  const commanded = Object.entries(commandsIn(desktopId, generation)).map(
    ([name, payload]) => [name, name, payload] as (typeof called)[number],
  )
  return [...commanded, ...called, ...streamed]
}

export const wayNames = waysIn(newId(), 1).map(([label]) => label)

/** Those that are not refused because the desktop is not awake, each with its outcome. */
export async function reached(
  bench: Pick<Bench<AnyDriver>, 'ask'>,
  desktopId: string,
  generation = 1,
): Promise<Record<string, string>> {
  const outcomeOf = (error: unknown) => (error instanceof Refusal ? `${error.code}: ${error.detail}` : String(error))
  const tried = waysIn(desktopId, generation).map(async ([label, name, payload]) => {
    const outcome = await bench.ask(name, payload as CommandPayload<CommandName>).then(() => 'done', outcomeOf)
    return [label, outcome] as const
  })
  const outcomes = await Promise.all(tried)
  return Object.fromEntries(outcomes.filter(([, outcome]) => !outcome.startsWith('not_awake: ')))
}
