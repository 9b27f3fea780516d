// Tools that work in an awake desktop: commands and files.
import { isUtf8 } from 'node:buffer'
import { buffer } from 'node:stream/consumers'
import { type ExecStateJson, InvalidRequestError, type RunJson } from '@dormouse/client'
import { z } from 'zod'
import { tool } from '../tool.ts'

/** How much of stdout and of stderr is shown: an agent reads all that it gets. */
const shownChars = 16_384
const readMaxBytes = 65_536
const longestSecs = 86_400
const defaultSecs = 60

export const runCommand = tool({
  name: 'desktop_run',
  title: 'Run a command',
  description:
    'Runs a shell command in an awake desktop, as root, and waits until it ends. Returns its exit code and output; of a long output the beginning and the end. With `background` it goes on: returns an exec_id for desktop_output and desktop_end_command.',
  grant: 'use',
  onDesktop: true,
  needsAwake: true,
  idempotent: false,
  input: {
    command: z.string().min(1).describe('For /bin/sh -c'),
    cwd: z.string().optional().describe('Working folder'),
    stdin: z.string().optional(),
    timeout_secs: z
      .int()
      .min(1)
      .max(longestSecs)
      .optional()
      .describe('The command is killed then: after 60 s by default; in the background never, unless given'),
    background: z.boolean().default(false).describe('For what takes minutes, or does not end, such as a server'),
  },
  output: {
    exit_code: z.int().optional(),
    signal: z.string().optional().describe('That ended it'),
    stdout: z.string().optional(),
    stderr: z.string().optional(),
    truncated: z.boolean().optional().describe('Whether the output is only a part'),
    exec_id: z.string().optional().describe('Of a command in the background'),
  },
  run: async ({ desktop_id: id, background, ...body }, { client, signal }) => {
    if (!background) {
      const { stdin, ...command } = body
      const timeout_secs = body.timeout_secs ?? defaultSecs
      const ended = await client.execs.run(id, { ...command, timeout_secs }, { stdin, signal, keptLength: shownChars })
      return { text: endOf(ended), data: dataOf(ended) }
    }
    const { id: exec_id } = await client.execs.start(id, body, { signal })
    return { text: `started; exec_id ${exec_id}\nNext step: call desktop_output`, data: { exec_id } }
  },
})

export const readOutput = tool({
  name: 'desktop_output',
  title: 'Read output',
  description:
    'Reads on in the output of a command in the background, and returns whether it still runs. Waits up to wait_secs for new output or its end.',
  grant: 'see',
  needs: 'use',
  onDesktop: true,
  idempotent: true,
  input: {
    exec_id: z.uuid().describe('From desktop_run'),
    stream: z.enum(['stdout', 'stderr']).default('stdout'),
    offset: z.int().min(0).default(0).describe('Byte to read on from; the answer before says it'),
    wait_secs: z.int().min(0).max(60).default(10),
  },
  output: {
    state: z.string(),
    exit_code: z.int().optional(),
    text: z.string(),
    next_offset: z.int().describe('Offset to read on from'),
    end: z.int().describe('Bytes that there are so far'),
  },
  run: async ({ desktop_id: id, exec_id, stream, offset, wait_secs }, { client, signal }) => {
    const given = { stream, offset, waitSecs: wait_secs, signal }
    const output = await client.execs.read(id, exec_id, given)
    const exec = await client.execs.get(id, exec_id, { signal })
    const shown = Buffer.from(output.bytes).subarray(0, shownChars)
    const next = output.offset + shown.length
    const dropped = output.offset > offset ? [`${output.offset - offset} bytes before were dropped`] : []
    const head = [stateOf(exec), ...dropped, `${stream} ${output.offset}–${next} of ${exec[stream].end}`]
    const text = shown.toString()
    const { state, exit_code } = exec
    const data = { state, ...(exit_code !== null && { exit_code }), text, next_offset: next, end: exec[stream].end }
    return { text: `${head.join('; ')}; read on with offset ${next}\n${text}`, data }
  },
})

const signals = { interrupt: 2, terminate: 15, kill: 9 }
/** How long the answer waits for the end. */
const endWaitSecs = 5

export const endCommand = tool({
  name: 'desktop_end_command',
  title: 'End a command',
  description:
    'Ends a command in the background, with all that it started: asks it to terminate, interrupts it as Ctrl-C does, or kills it. Returns how it has ended, or that it still runs. Its output stays for desktop_output.',
  grant: 'use',
  onDesktop: true,
  idempotent: true,
  input: {
    exec_id: z.uuid().describe('From desktop_run'),
    how: z
      .enum(['terminate', 'interrupt', 'kill'])
      .default('terminate')
      .describe('kill cannot be ignored by the command'),
  },
  output: { state: z.string(), exit_code: z.int().optional(), signal: z.string().optional() },
  run: async ({ desktop_id: id, exec_id, how }, { client, signal }) => {
    const { stdout } = await client.execs.signal(id, exec_id, signals[how], { signal })
    await client.execs.read(id, exec_id, { offset: stdout.end, waitSecs: endWaitSecs, signal })
    const exec = await client.execs.get(id, exec_id, { signal })
    const { state, exit_code } = exec
    const data = {
      ...{ state, ...(exit_code !== null && { exit_code }) },
      ...(exec.signal !== null && { signal: String(exec.signal) }),
    }
    const next = state === 'running' ? '\nNext step: call it again with how: kill' : ''
    return { text: `${stateOf(exec)}${next}`, data }
  },
})

function stateOf({ state, exit_code, signal, reason }: ExecStateJson): string {
  if (exit_code !== null) return `exit code ${exit_code}`
  return [state, signal === null ? '' : `by signal ${signal}`, reason ?? ''].filter(Boolean).join(', ')
}

const dataOf = ({ exit_code, signal, stdout, stderr, ...cut }: RunJson) => ({
  ...(exit_code !== null && { exit_code }),
  ...(signal !== null && { signal: String(signal) }),
  ...{ stdout, stderr, truncated: cut.stdout_truncated || cut.stderr_truncated },
})

function endOf({ exit_code, signal, stdout, stderr, dropped_bytes: dropped, ...cut }: RunJson): string {
  const how = exit_code === null ? `ended by signal ${signal ?? 'unknown'}` : `exit code ${exit_code}`
  const parts = [
    how,
    outputOf('stdout', stdout, cut.stdout_truncated),
    outputOf('stderr', stderr, cut.stderr_truncated),
    dropped.stdout + dropped.stderr > 0 &&
      `${dropped.stdout} bytes of stdout and ${dropped.stderr} of stderr were dropped while nothing read them`,
  ]
  return parts.filter(Boolean).join('\n')
}

/** If it is long, its beginning and its end: there the error is, and the result. */
function outputOf(name: string, text: string, truncated: boolean): string {
  if (text === '') return ''
  const note = truncated ? ' (only its beginning and its end; write it to a file to read all of it)' : ''
  return `--- ${name}${note}\n${text}`
}

export const readFile = tool({
  name: 'desktop_read_file',
  title: 'Read a file',
  description: `Reads text from a file of an awake desktop, at most ${readMaxBytes} bytes in a call.`,
  grant: 'see',
  needs: 'use',
  onDesktop: true,
  needsAwake: true,
  idempotent: true,
  input: {
    path: z.string().min(1).describe('Absolute path'),
    offset: z.int().min(0).default(0).describe('First byte to read'),
  },
  output: { text: z.string(), end: z.int().describe('Offset to read on from'), size: z.int() },
  run: async ({ desktop_id: id, path, offset }, { client, signal }) => {
    const part = await client.readFilePart(id, path, { offset, length: readMaxBytes, signal })
    const bytes = await buffer(part.stream)
    // A file whose size is not known before its end comes whole.
    const wanted = bytes.subarray(offset - part.offset, offset - part.offset + readMaxBytes)
    const text = textOf(wanted)
    if (text === undefined) throw new InvalidRequestError(`${path} is not text; use desktop_run to look into it`)
    const size = part.size ?? bytes.length
    const end = offset + Buffer.byteLength(text)
    const shown = end < size ? `${text}\n--- ${end} of ${size} bytes; read on with offset ${end}` : text
    return { text: shown, data: { text, end, size } }
  },
})

/** Undefined if it is not UTF-8. A character that the end cuts is left to the next part. */
function textOf(bytes: Buffer): string | undefined {
  for (let cut = 0; cut < 4 && cut <= bytes.length; cut++) {
    const whole = bytes.subarray(0, bytes.length - cut)
    if (isUtf8(whole)) return whole.toString()
  }
  return undefined
}

export const writeFile = tool({
  name: 'desktop_write_file',
  title: 'Write a file',
  description: 'Writes text to a file of an awake desktop, atomically. Creates parent folders, replaces what is there.',
  grant: 'use',
  onDesktop: true,
  needsAwake: true,
  idempotent: true,
  input: {
    path: z.string().min(1).describe('Absolute path'),
    text: z.string(),
    mode: z
      .string()
      .regex(/^[0-7]{3,4}$/, 'must be an octal mode such as 0644')
      .optional()
      .describe('Octal, such as 0644'),
  },
  output: { path: z.string(), size: z.int() },
  run: async ({ desktop_id: id, path, text, mode }, { client, signal }) => {
    const { size } = await client.writeFile(id, path, text, { mode, signal })
    return { text: `Wrote ${size} bytes to ${path}`, data: { path, size } }
  },
})

const listed = 200

export const listFiles = tool({
  name: 'desktop_list_files',
  title: 'List files',
  description: `Lists the entries of a folder of an awake desktop: type, size and path, at most ${listed}.`,
  grant: 'see',
  needs: 'use',
  onDesktop: true,
  needsAwake: true,
  idempotent: true,
  input: {
    path: z.string().min(1).describe('Absolute path of the folder'),
    depth: z.int().min(1).max(8).default(1).describe('Levels below the folder'),
  },
  output: {
    entries: z.array(
      z.strictObject({ path: z.string(), type: z.string(), size: z.int(), target: z.string().optional() }),
    ),
    more: z.boolean().describe('Whether there are more than these'),
  },
  run: async ({ desktop_id: id, path, depth }, { client, signal }) => {
    const { entries, next_cursor } = await client.listEntries(id, { path, depth, limit: listed }, { signal })
    const data = {
      entries: entries.map(({ type, size, path: each, target }) => ({
        ...{ path: each, type, size },
        ...(target !== null && { target }),
      })),
      more: next_cursor !== null,
    }
    const lines = entries.map(({ type, size, path: each, target }) =>
      [type.padEnd(9), String(size).padStart(10), target === null ? each : `${each} -> ${target}`].join(' '),
    )
    if (lines.length === 0) return { text: `${path} is empty`, data }
    const more = data.more ? ['There are more; list a folder below.'] : []
    return { text: [...lines, ...more].join('\n'), data }
  },
})
