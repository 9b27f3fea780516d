// input: types and points in an awake desktop.
import { writeFile } from 'node:fs/promises'
import {
  type InputAction,
  type InputBody,
  type InputJson,
  type KeyedOptions,
  type Piece,
  typeInPieces,
} from '@dormouse/client'
import { type Command, Option } from 'commander'
import type { Context } from '../context.ts'
import { CliError, exitCodes } from '../failures.ts'
import { integerFrom, type JsonOption, type KeyOption, keyOption, replayNote, withJson } from '../options.ts'
import { type ActionOptions, actionsOf, chord, point } from './input-actions.ts'

interface InputOptions extends JsonOption, KeyOption, ActionOptions {
  paceMs?: number
  settle?: boolean
  screenshot?: string
  fit?: number
  takeover?: boolean
}

const id = '019a9f00-0000-7000-8000-000000000001'
const example = `dormouse input ${id} click 100,200
dormouse input ${id} type 'Grüße'
dormouse input ${id} key ctrl+s --settle --screenshot saved.png
dormouse input ${id} drag 10,10 300,200
dormouse input ${id} scroll 0,3 --at 640,400

Actions:
  click [x,y]  down [x,y]  up [x,y]  move <x,y>  drag <x,y> <x,y>…  scroll <right,down>, in ticks
  type <text>…  key <key+key>…  hold <key+key> <ms>  wait <ms>`

/** Adds the command. */
export function addInput(program: Command, context: Context): void {
  withJson(program.command('input'), example)
    .description('type and point in an awake desktop')
    .argument('<id>', 'desktop')
    .argument('<action>', 'click, type, key, …')
    .argument('[values...]', 'what the action takes; after -- where one begins with a hyphen')
    .addOption(new Option('--at <x,y>', 'scroll: where').argParser(point))
    .addOption(
      new Option('--button <button>', 'click, down, up, drag: which (default: left)').choices([
        'left',
        'middle',
        'right',
        'back',
        'forward',
      ]),
    )
    .option('--count <n>', 'click, key: so many times', integerFrom(1))
    .addOption(new Option('--hold <key+key>', 'keys that are held meanwhile').argParser(chord))
    .addOption(
      new Option('--paste <key+key>', 'type: the keys that paste what is on no key (default: ctrl+v)').argParser(chord),
    )
    .option('--pace-ms <n>', 'between two events (default: 20)', integerFrom(2))
    .option('--settle', 'wait until the screen has changed and is quiet')
    .option('--screenshot <file>', 'then save the screen as a PNG, or as JPEG with .jpg; - is standard output')
    .option('--fit <pixels>', '--screenshot: make the longer side at most so long', integerFrom(16))
    .option('--takeover', 'take the claim from another client')
    .addOption(keyOption())
    .action((desktop: string, action: string, values: string[], options: InputOptions) =>
      input(context, desktop, actionsOf(action, values, options), options),
    )
}

async function input(context: Context, desktop: string, actions: InputAction[], options: InputOptions): Promise<void> {
  context.about.id = desktop
  const { signal } = context.terminal
  const body = {
    actions,
    pace_ms: options.paceMs,
    settle: options.settle ? {} : undefined,
    screenshot:
      options.screenshot === undefined ? undefined : { fit: options.fit, format: formatOf(options.screenshot) },
    takeover: options.takeover,
  }
  const { idempotencyKey } = options
  const call = {
    signal,
    onResponse: replayNote(context, options),
    ...(idempotencyKey !== undefined && { idempotencyKey }),
  }
  const client = context.customer()
  const [first] = actions
  const result =
    first?.type === 'type'
      ? await typeInPieces(first.text, options.paceMs, (piece) =>
          client.sendInput(desktop, bodyOf(body, first, piece), callOf(call, idempotencyKey, piece)),
        )
      : await client.sendInput(desktop, body, call)
  if (options.screenshot !== undefined) await save(options.screenshot, result)
  if (options.screenshot !== '-') context.show(options, { ...result, screenshot: undefined }, () => '')
  if (result.outcome !== 'done') fail(result)
}

/** What comes after the text comes after its last piece. */
const bodyOf = (body: InputBody, action: InputAction, { text, isLast }: Piece): InputBody => ({
  ...body,
  actions: [{ ...action, text } as InputAction],
  ...(!isLast && { settle: undefined, screenshot: undefined }),
})

/** A key names one batch. */
const callOf = (call: KeyedOptions, key: string | undefined, { offset }: Piece): KeyedOptions =>
  key === undefined || offset === 0 ? call : { ...call, idempotencyKey: `${key} ${offset}` }

const formatOf = (file: string): 'jpeg' | undefined => (/\.jpe?g$/i.test(file) ? 'jpeg' : undefined)

async function save(file: string, { screenshot }: InputJson): Promise<void> {
  if (!screenshot) throw new CliError('there is no picture', 'take one with `dormouse screenshot`', exitCodes.failed)
  const bytes = Buffer.from(screenshot.data, 'base64')
  if (file === '-') process.stdout.write(bytes)
  else await writeFile(file, bytes)
}

function fail({ outcome, performed, reason }: InputJson): never {
  const next =
    outcome === 'unknown'
      ? 'take a screenshot to see what was done; it is not done again'
      : 'take a screenshot, then send what is left'
  const done = performed === null ? '' : `; ${performed} actions were done`
  throw new CliError(`the input is ${outcome}${reason ? `: ${reason}` : ''}${done}`, next, exitCodes.failed)
}
