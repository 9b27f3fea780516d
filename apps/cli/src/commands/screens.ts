// open, screenshot and screen: shows a desktop's screen in a browser, saves it as a file, or prints its properties.
import { spawn } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { extname } from 'node:path'
import type { ScreenJson, ScreenshotQuery } from '@dormouse/client'
import { type Command, InvalidArgumentError, Option } from 'commander'
import type { Context } from '../context.ts'
import { integerFrom, type JsonOption, withJson } from '../options.ts'

interface ScreenshotOptions extends JsonOption, Omit<ScreenshotQuery, 'quietMs'> {}

interface OpenOptions extends JsonOption {
  view?: boolean
  takeover?: boolean
  browser: boolean
}

const id = '019a9f00-0000-7000-8000-000000000001'

/** Adds the commands that show a screen. */
export function addScreens(program: Command, context: Context): void {
  withJson(program.command('open'), `dormouse open ${id}\ndormouse open ${id} --view --no-browser`)
    .description('claim a desktop’s screen and open it in the browser, if there is one')
    .argument('<id>', 'desktop')
    .option('--view', 'view only; by default you also control it')
    .option('--takeover', 'take the claim from another client')
    .option('--no-browser', 'only print the URL')
    .action((desktop: string, options: OpenOptions) => open(context, desktop, options))
  withJson(
    program.command('screenshot'),
    `dormouse screenshot ${id} screen.png\ndormouse screenshot ${id} --fit 1280 --wait settled screen.jpg`,
  )
    .description('save an awake desktop’s screen as a PNG or JPEG')
    .argument('<id>', 'desktop')
    .argument('[file]', 'target file (default: <id>.png); .jpg and .jpeg are JPEG; - is standard output')
    .addOption(new Option('--region <x,y,width,height>', 'only this part').argParser(regionOf))
    .option('--fit <pixels>', 'make the longer side at most so long', integerFrom(16))
    .addOption(new Option('--format <format>', 'default: by the file’s name, or png').choices(['png', 'jpeg']))
    .option('--quality <n>', 'JPEG: 1 to 100 (default: 80)', integerFrom(1))
    .addOption(
      new Option('--wait <for>', 'wait until the screen is quiet, or shows something else').choices([
        'settled',
        'changed',
      ]),
    )
    .option('--after <sequence>', '--wait: begin with a change from this; `screen` shows it')
    .option('--max-ms <n>', '--wait: at most so long (default: 5000)', integerFrom(50))
    .action((desktop: string, file: string | undefined, options: ScreenshotOptions) =>
      screenshot(context, desktop, file, options),
    )
  withJson(program.command('screen'), `dormouse screen ${id}`)
    .description('show the size of an awake desktop’s screen, its pointer, and who controls it')
    .argument('<id>', 'desktop')
    .action((desktop: string, options: JsonOption) => screen(context, desktop, options))
}

async function open(context: Context, desktop: string, options: OpenOptions): Promise<void> {
  context.about.id = desktop
  const { signal } = context.terminal
  const body = { claim: options.view ? 'view' : 'control', takeover: options.takeover } as const
  const stream = await context.customer().openStream(desktop, body, { signal })
  context.show(options, stream, () => `${stream.url}\n`)
  if (options.json) return
  const opened = options.browser && process.stdout.isTTY && (await openBrowser(stream.url))
  context.terminal.note(opened ? 'Opened in the browser.' : `Opens once, until ${stream.expires_at}.`)
}

/** Whether a browser was started. A machine without a display has none. */
function openBrowser(url: string): Promise<boolean> {
  const mac = process.platform === 'darwin'
  if (!mac && !process.env.DISPLAY && !process.env.WAYLAND_DISPLAY) return Promise.resolve(false)
  const child = spawn(mac ? 'open' : 'xdg-open', [url], { stdio: 'ignore', detached: true })
  child.unref()
  return new Promise((resolve) => {
    child.on('error', () => resolve(false))
    child.on('spawn', () => resolve(true))
  })
}

async function screenshot(context: Context, desktop: string, file: string | undefined, options: ScreenshotOptions) {
  context.about.id = desktop
  const { signal } = context.terminal
  const { json: _json, ...query } = options
  const format = query.format ?? (/\.jpe?g$/i.test(extname(file ?? '')) || query.quality !== undefined ? 'jpeg' : 'png')
  const isPlain = format === 'png' && Object.keys(query).length === 0
  const client = context.customer()
  const { bytes, ...seen } = isPlain
    ? { bytes: await client.screenshot(desktop, { signal }) }
    : await client.takeScreenshot(desktop, { ...query, format }, { signal })
  if (file === '-') {
    process.stdout.write(bytes)
    return
  }
  const name = file ?? `${desktop}.${format === 'jpeg' ? 'jpg' : 'png'}`
  await writeFile(name, bytes)
  if ('settled' in seen && seen.settled === false) context.terminal.note('The screen still changes.')
  if ('changed' in seen && seen.changed === false && query.wait === 'changed')
    context.terminal.note('The screen has not changed.')
  context.show(options, { file: name, bytes: bytes.length, ...seen }, () => `${name}\n`)
}

async function screen(context: Context, desktop: string, options: JsonOption) {
  context.about.id = desktop
  const { signal } = context.terminal
  const seen = await context.customer().getScreen(desktop, { signal })
  context.show(options, seen, () => linesOf(seen))
}

function linesOf({ width, height, pointer, claim, sequence }: ScreenJson): string {
  const by = claim && `${claim.holder}${claim.human_active ? ', a person' : ''}, at least until ${claim.until}`
  return [
    `size      ${width} × ${height} pixels`,
    `pointer   ${pointer ? `${pointer.x},${pointer.y}` : 'not known'}`,
    `control   ${by ?? 'free'}`,
    `sequence  ${sequence}\n`,
  ].join('\n')
}

function regionOf(text: string): NonNullable<ScreenshotQuery['region']> {
  const [x, y, width, height] = /^\d+(,\d+){3}$/.test(text) ? text.split(',').map(Number) : []
  if (height === undefined) throw new InvalidArgumentError('It must be four whole numbers, such as 0,0,640,400.')
  return { x: x!, y: y!, width: width!, height }
}
