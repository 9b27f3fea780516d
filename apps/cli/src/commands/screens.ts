// open and screenshot: shows a desktop's screen in a browser, or saves it as a file.
import { spawn } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import type { Command } from 'commander'
import type { Context } from '../context.ts'
import { type JsonOption, withJson } from '../options.ts'

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
  withJson(program.command('screenshot'), `dormouse screenshot ${id} screen.png`)
    .description('save an awake desktop’s screen as a PNG')
    .argument('<id>', 'desktop')
    .argument('[file]', 'target file (default: <id>.png); - is standard output')
    .action((desktop: string, file: string | undefined, options: JsonOption) =>
      screenshot(context, desktop, file, options),
    )
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

async function screenshot(context: Context, desktop: string, file: string | undefined, options: JsonOption) {
  context.about.id = desktop
  const { signal } = context.terminal
  const bytes = await context.customer().screenshot(desktop, { signal })
  if (file === '-') {
    process.stdout.write(bytes)
    return
  }
  const name = file ?? `${desktop}.png`
  await writeFile(name, bytes)
  context.show(options, { file: name, bytes: bytes.length }, () => `${name}\n`)
}
