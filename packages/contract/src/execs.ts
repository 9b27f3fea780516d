// Commands that last: execs as a resource.
import { z } from 'zod'
import { flag, time } from './desktops.ts'
import { commandText, fitsInAll, variables, workingFolder } from './guest.ts'
import { id } from './ids.ts'

/** The longest input that is sent with a start. More is sent with `stdin`. */
export const execStdinMaxBytes = 256 * 1024
/** What one request for output returns at most. Its guest sends it as base64, in an answer of 1 MiB. */
export const execReadMaxBytes = 720 * 1024
export const execWaitMaxSecs = 60
/** The longest timeout. */
export const execTimeoutLongestSecs = 31_536_000
/** Kept of each stream. */
export const execStreamMaxBytes = 16 * 1024 * 1024
/** A command that waits for its reader goes on after this long without one. */
export const execReaderSecs = 60
export const execStates = ['running', 'exited', 'lost'] as const
export const execReasons = ['timeout', 'removed', 'boot', 'supervisor'] as const
export const execStream = z.enum(['stdout', 'stderr'])
export type ExecStream = z.infer<typeof execStream>

const side = z.int().min(1).max(1_000)
export const terminalSize = z
  .object({ cols: side, rows: side })
  .meta({ id: 'TerminalSize', examples: [{ cols: 80, rows: 24 }] })

export const startExecBody = z
  .strictObject({
    command: commandText,
    cwd: workingFolder.nullish(),
    env: variables.nullish(),
    stdin: z
      .union([z.string(), z.literal(true)], 'must be a string, or true for input that follows')
      .nullish()
      .describe(
        'A string, of at most 256 KiB, is the whole input. `true`: input follows with `/stdin`. Without it there is none',
      ),
    tty: terminalSize.nullish().describe('Runs it in a terminal of this size. Its input is open'),
    timeout_secs: z
      .int()
      .min(1)
      .max(execTimeoutLongestSecs)
      .nullish()
      .describe('It is killed after so long awake; null: never'),
    keep_awake: z
      .boolean()
      .nullish()
      .describe(
        'The desktop does not hibernate by itself while it runs. Otherwise one without a timeout counts as activity only while bytes move',
      ),
    wait_for_reader: z
      .boolean()
      .nullish()
      .describe(
        `While its output is read, none is dropped: above ${execStreamMaxBytes / 2 / 1024 / 1024} MiB that nobody has read, the command waits, as at a pipe. If nothing has been read for ${execReaderSecs} s awake, it goes on, and the oldest bytes are dropped`,
      ),
  })
  .superRefine(fitsInAll)
  .meta({ id: 'StartExecBody', examples: [{ command: 'make -j2', cwd: '/srv/app', timeout_secs: 3_600 }] })
export type StartExecBody = z.infer<typeof startExecBody>

const streamJson = z
  .object({
    start: z.int().describe('Offset of the first byte that is kept'),
    end: z.int().describe('Offset behind the last byte'),
    dropped_bytes: z.int().describe('Bytes that were dropped because more came than is kept'),
  })
  .meta({ id: 'ExecStream' })

export const execStateJson = z
  .object({
    id,
    desktop_id: id,
    state: z.enum(execStates).describe('`lost`: its guest booted again, or its supervisor died; it has no exit code'),
    exit_code: z.int().nullable().describe('Null while it runs, and where a signal ended it or it is lost'),
    signal: z.int().nullable().describe('Number of the signal that ended it'),
    reason: z.enum(execReasons).nullable().describe('Why it has ended, unless by itself; for one that is lost, why'),
    started_at: time.describe('By the guest’s clock'),
    ended_at: time.nullable(),
    tty: z.boolean(),
    keep_awake: z.boolean(),
    timeout_secs: z.int().nullable(),
    stdin: z.object({ end: z.int().describe('Bytes that were accepted'), open: z.boolean() }),
    stdout: streamJson,
    stderr: streamJson,
    command: z.string().max(600).describe('Its beginning, up to 508 bytes'),
  })
  .meta({
    id: 'Exec',
    examples: [
      {
        id: '01980f3e-7a5c-7c1e-9d54-1c2f5e6a7b81',
        desktop_id: '01980f3e-7a5c-7c1e-9d54-1c2f5e6a7b80',
        state: 'exited',
        exit_code: 0,
        signal: null,
        reason: null,
        started_at: '2026-01-01T12:00:00.000Z',
        ended_at: '2026-01-01T12:10:00.000Z',
        tty: false,
        keep_awake: false,
        timeout_secs: 3_600,
        stdin: { end: 0, open: false },
        stdout: { start: 0, end: 11, dropped_bytes: 0 },
        stderr: { start: 0, end: 0, dropped_bytes: 0 },
        command: '/bin/sh -c make -j2',
      },
    ],
  })
export type ExecStateJson = z.infer<typeof execStateJson>

const wholeNumber = (what: string) =>
  z
    .string()
    .regex(/^\d{1,15}$/, `must be ${what}`)
    .transform(Number)
    .pipe(z.int())
    .meta({ type: 'integer', minimum: 0 })

export const execOutputQuery = z.object({
  stream: execStream.optional().describe('Default `stdout`. A terminal has no other'),
  offset: wholeNumber('a number of bytes')
    .optional()
    .describe('Of the first byte; default 0. What was dropped is skipped'),
  wait_secs: wholeNumber(`0 to ${execWaitMaxSecs}`)
    .pipe(z.int().max(execWaitMaxSecs, `must be 0 to ${execWaitMaxSecs}`))
    .meta({ type: 'integer', minimum: 0, maximum: execWaitMaxSecs })
    .optional()
    .describe('Wait so long for a byte, or for the end; at most 60'),
})

export const execStdinQuery = z.object({
  offset: wholeNumber('a number of bytes').describe(
    'Of the first byte. Bytes before the end are skipped; beyond it is 409',
  ),
  eof: flag.optional().describe('`true`: nothing follows'),
})

export const execStdinJson = z
  .object({ next_offset: z.int().describe('Send on from here; less than was sent if the command reads slowly') })
  .meta({ id: 'ExecStdin', examples: [{ next_offset: 5 }] })

export const execSignalBody = z
  .strictObject({
    signal: z.int().min(1).max(64).describe('Its number, such as 2 for SIGINT, 15 for SIGTERM, 9 for SIGKILL'),
  })
  .meta({ id: 'ExecSignalBody', examples: [{ signal: 15 }] })
