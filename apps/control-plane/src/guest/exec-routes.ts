// Customers' routes for execs, commands that last, and their output as server-sent events. Only HTTP.
import {
  type ExecStateJson,
  type ExecStream,
  execOutputQuery,
  execSignalBody,
  execStateJson,
  execStdinJson,
  execStdinMaxBytes,
  execStdinQuery,
  id,
  Refusal,
  refuseField,
  startExecBody,
  terminalSize,
} from '@dormouse/contract'
import type { FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { App } from '../http/app.ts'
import { BoundedBody } from '../http/bounded-body.ts'
import { sendEvents } from '../http/events.ts'
import type { InFlightBytes } from '../http/in-flight-bytes.ts'
import { callerGone, fingerprint, idempotencyKey } from '../http/requests.ts'
import type { Leadership } from '../leadership/leadership.ts'
import { askingOf } from './asking.ts'
import type { Asking } from './calls.ts'
import type { Execs } from './execs.ts'

const params = z.object({ id })
const execParams = params.extend({ exec: id.describe('Id of the exec') })
const listJson = z.object({ execs: z.array(execStateJson) }).meta({ id: 'ExecList' })
const removedJson = z.object({ id }).meta({
  id: 'DeletedExec',
  examples: [{ id: '01980f3e-7a5c-7c1e-9d54-1c2f5e6a7b80' }],
})

interface ExecRoutesOptions {
  execs: Execs
  leadership: Leadership
  onMismatch(): void
}

export function execRoutes(app: App, options: ExecRoutesOptions): void {
  startRoutes(app, options)
  controlRoutes(app, options)
  outputRoute(app, options)
}

function startRoutes(app: App, { execs, leadership, onMismatch }: ExecRoutesOptions): void {
  app.post(
    '/desktops/:id/execs',
    {
      schema: {
        operationId: 'startExec',
        right: 'use',
        tags: ['Guest'],
        wakes: 'exec',
        summary: 'Start a command that lasts',
        description:
          'It outlives this connection, and hibernation. Its guest keeps the last 16 MiB of each stream, of all execs 256 MiB, for 24 hours after the end at most; what ended first is removed where space is needed. With a key it starts once.',
        params,
        body: startExecBody,
        keyed: 'desktop',
        response: { 200: execStateJson, 201: execStateJson },
        answers: { 200: 'The exec that was started with this key before', 201: 'It was started' },
        problems: [404, 409, 504],
      },
    },
    async (request, reply) => {
      const key = idempotencyKey(request)
      leadership.require()
      const { exec, replay } = await execs.start(askingOf(request), request.body, key, fingerprint(request.body))
      if (replay !== 'no') reply.header('idempotency-replayed', replay === 'same' ? 'true' : 'mismatch')
      if (replay === 'mismatch') onMismatch()
      return reply.code(replay === 'no' ? 201 : 200).send(exec)
    },
  )

  app.get(
    '/desktops/:id/execs',
    {
      schema: {
        operationId: 'listExecs',
        right: 'use',
        tags: ['Guest'],
        wakes: 'exec',
        summary: 'List the execs that the guest keeps, newest first',
        params,
        response: { 200: listJson },
        answers: { 200: 'Those that run, and those that have ended and are kept' },
        problems: [404, 409, 504],
      },
    },
    async (request) => ({ execs: await execs.list(askingOf(request)) }),
  )
}

function controlRoutes(app: App, { execs, leadership }: ExecRoutesOptions): void {
  const shared = { tags: ['Guest'], params: execParams, problems: [404, 409, 504] as const }

  app.get(
    '/desktops/:id/execs/:exec',
    {
      schema: {
        ...{ ...shared, operationId: 'getExec', right: 'use', summary: 'Read the state of an exec' },
        wakes: 'exec',
        response: { 200: execStateJson },
        answers: { 200: 'As of now' },
      },
    },
    async (request) => execs.get(askingOf(request), request.params.exec),
  )

  app.delete(
    '/desktops/:id/execs/:exec',
    {
      schema: {
        ...{
          ...shared,
          operationId: 'deleteExec',
          right: 'use',
          summary: 'Kill an exec if it runs, and delete its output',
        },
        wakes: 'exec',
        response: { 200: removedJson },
        answers: { 200: 'The desktop keeps no such exec' },
      },
    },
    async (request) => {
      leadership.require()
      await execs.remove(askingOf(request), request.params.exec)
      return { id: request.params.exec }
    },
  )

  app.post(
    '/desktops/:id/execs/:exec/signal',
    {
      schema: {
        ...{
          ...shared,
          operationId: 'signalExec',
          right: 'use',
          summary: 'Send a signal to the process group of an exec',
        },
        wakes: 'exec',
        body: execSignalBody,
        response: { 200: execStateJson },
        answers: { 200: 'It was sent, unless the command has ended' },
      },
    },
    async (request) => execs.signal(askingOf(request), request.params.exec, request.body.signal),
  )

  app.post(
    '/desktops/:id/execs/:exec/resize',
    {
      schema: {
        ...{ ...shared, operationId: 'resizeExec', right: 'use', summary: 'Change the size of an exec’s terminal' },
        wakes: 'exec',
        body: terminalSize,
        response: { 200: execStateJson },
        answers: { 200: 'It has this size, if it has a terminal' },
      },
    },
    async (request) => execs.resize(askingOf(request), request.params.exec, request.body),
  )
}

function outputRoute(app: App, { execs }: ExecRoutesOptions): void {
  app.get(
    '/desktops/:id/execs/:exec/output',
    {
      exposeHeadRoute: false,
      schema: {
        operationId: 'readExecOutput',
        right: 'use',
        tags: ['Guest'],
        wakes: 'exec',
        summary: 'Read the output of an exec from an offset',
        description:
          'Bytes as they are, at most 720 KiB. Bytes that were dropped are skipped: the first byte of the answer is at `dormouse-next-offset` minus its length. With `accept: text/event-stream`, server-sent events: `id` is the offset behind the bytes, `data` is `{offset, base64}`, and `Last-Event-ID` continues. The stream ends with `event: end` and a `reason`: `ended` once the command has ended and everything was sent, otherwise connect again. A stream without `ended` is unfinished.',
        params: execParams,
        querystring: execOutputQuery,
        answers: {
          200: {
            what: 'The bytes; none where none have come in time, or at the end',
            bytes: 'application/octet-stream',
            stream: 'text/event-stream',
            headers: {
              'cache-control': '`no-store`',
              'x-accel-buffering': 'Of a stream: `no`, so that a proxy passes each event on at once',
              'dormouse-next-offset': 'The offset to read on from',
              'dormouse-exec-state': 'The state of the exec: `running`, `exited` or `lost`',
              'dormouse-output-end': '`true` where nothing follows',
            },
          },
        },
        problems: [404, 409, 504],
      },
    },
    async (request, reply) => {
      const { stream = 'stdout', offset = 0, wait_secs: waitSecs = 0 } = request.query
      const asking = { ...askingOf(request), signal: callerGone(request, reply) }
      if (/\btext\/event-stream\b/i.test(request.headers.accept ?? '')) {
        const from = { stream, offset: lastOffset(request) ?? offset }
        // Refuses before the stream begins.
        await execs.get(asking, request.params.exec)
        return sendEvents(reply, eventsOf(execs, asking, request.params.exec, from))
      }
      const output = await execs.read(asking, request.params.exec, { stream, offset, waitMs: waitSecs * 1_000 })
      reply.headers({
        'dormouse-next-offset': String(output.offset + output.bytes.length),
        'dormouse-exec-state': output.exec.state,
        'dormouse-output-end': String(output.isEnd),
        'cache-control': 'no-store',
      })
      return reply.type('application/octet-stream').send(output.bytes)
    },
  )
}

function lastOffset({ headers }: FastifyRequest): number | undefined {
  const text = [headers['last-event-id']].flat()[0]
  if (text === undefined || text === '') return undefined
  return /^\d{1,15}$/.test(text) ? Number(text) : refuseField('Last-Event-ID', 'must be an offset')
}

interface ExecInputOptions {
  execs: Execs
  stallMs: number
  /** Counts the bytes of a body before they are kept. */
  heldBytes: Pick<InFlightBytes, 'hold'>
}

/** A scope of its own: the body is raw bytes here, whatever the Content-Type. */
export function execInputRoutes(app: App, { execs, stallMs, heldBytes }: ExecInputOptions): void {
  const bounds = { maxBytes: execStdinMaxBytes, stallMs }
  app.removeAllContentTypeParsers()
  app.addContentTypeParser('*', (_request, _payload, done) => done(null))

  app.post(
    '/desktops/:id/execs/:exec/stdin',
    {
      onRequest: async ({ raw }) => void new BoundedBody(raw, bounds),
      schema: {
        operationId: 'writeExecInput',
        right: 'use',
        tags: ['Guest'],
        wakes: 'exec',
        summary: 'Append to the input of an exec',
        description:
          'Sent again with the same offset, it takes effect once. What the command has not read yet is bounded: send the rest from `next_offset`.',
        params: execParams,
        querystring: execStdinQuery,
        bytes: 'The bytes, up to 256 KiB, whatever the Content-Type',
        response: { 200: execStdinJson },
        answers: { 200: 'The bytes before `next_offset` were accepted' },
        problems: [404, 409, 413, 504],
      },
    },
    async (request) => {
      const bytes = await new BoundedBody(request.raw, bounds).bytes((more) => heldBytes.hold(request.raw, more))
      const { offset, eof } = request.query
      const end = await execs.write(askingOf(request), request.params.exec, offset, bytes, eof === 'true')
      return { next_offset: end }
    },
  )
}

/** Proxies close connections without traffic, often after 30 s. */
const waitMs = 10_000
/** The client connects again, with a credential that is verified again. */
const longestMs = 300_000

/** Ends with `event: end`: `ended` once everything was sent and the command has ended, otherwise a reason to connect again. */
export async function* eventsOf(
  execs: Execs,
  asking: Asking,
  execId: string,
  from: { stream: ExecStream; offset: number },
): AsyncGenerator<string> {
  let { offset } = from
  const until = performance.now() + longestMs
  try {
    while (performance.now() < until) {
      const output = await execs.read(asking, execId, { stream: from.stream, offset, waitMs })
      const { bytes, exec, isEnd } = output
      if (bytes.length > 0) {
        offset = output.offset + bytes.length
        yield `id: ${offset}\ndata: ${JSON.stringify({ offset: output.offset, base64: bytes.toString('base64') })}\n\n`
      }
      if (isEnd) return yield endOf('ended', exec)
      if (bytes.length === 0) yield ': still running\n\n'
    }
    yield endOf('reconnect')
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    yield endOf('interrupted')
  }
}

const endOf = (reason: 'ended' | 'reconnect' | 'interrupted', exec?: ExecStateJson): string =>
  `event: end\ndata: ${JSON.stringify({ reason, ...(exec && { exec }) })}\n\n`
