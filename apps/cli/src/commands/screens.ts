// open and screenshot: a desktop's screen, live in a browser or as a file.
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
    .description('claim a desktop’s screen, and open it in the browser where there is one')
    .argument('<id>', 'desktop')
    .option('--view', 'look only; by default one controls it, too')
    .option('--takeover', 'take the claim from whoever holds it')
    .option('--no-browser', 'print the URL and open nothing')
    .action((desktop: string, options: OpenOptions) => open(context, desktop, options))
  withJson(program.command('screenshot'), `dormouse screenshot ${id} screen.png`)
    .description('take a picture of an awake desktop’s screen')
    .argument('<id>', 'desktop')
    .argument('[file]', 'where it goes; <id>.png by default, - for standard output')
    .action((desktop: string, file: string | undefined, options: JsonOption) =>
      screenshot(context, desktop, file, options),
    )
}

async function open(context: Context, desktop: string, options: OpenOptions): Promise<void> {
  context.about.id = desktop
  const { signal } = context.terminal
  const wish = { claim: options.view ? 'view' : 'control', takeover: options.takeover } as const
  const stream = await context.customer().openStream(desktop, wish, { signal })
  context.show(options, stream, () => `${stream.url}\n`)
  if (options.json) return
  const opened = options.browser && process.stdout.isTTY && (await openBrowser(stream.url))
  context.terminal.note(opened ? 'Opened in the browser.' : `Good once, until ${stream.expires_at}.`)
}

/** Whether a browser took it. A machine without a screen has none. */
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
