// url and urls: URLs that read or write one file of a desktop without a credential, to hand on.
import type { FileUrlJson } from '@dormouse/client'
import { type Command, Option } from 'commander'
import type { Context } from '../context.ts'
import { durationSecs, integerFrom, type JsonOption, withJson } from '../options.ts'
import { table } from '../terminal.ts'

interface UrlOptions extends JsonOption {
  put?: boolean
  once?: boolean
  expires: number
  maxBytes?: number
}

interface UrlsOptions extends JsonOption {
  revoke?: string
}

const id = '019a9f00-0000-7000-8000-000000000001'
const example = `dormouse url ${id} /srv/report.pdf --once
curl -OJ "$(dormouse url ${id} /srv/report.pdf)"
curl -T data.csv "$(dormouse url ${id} /srv/data.csv --put --max-bytes 1000000)"`

/** Adds the commands. */
export function addUrl(program: Command, context: Context): void {
  withJson(program.command('url'), example)
    .description('make a URL that reads a file of a desktop without a credential; whoever has it can use it')
    .argument('<id>', 'desktop')
    .argument('<path>', 'file in the desktop')
    .option('--put', 'a URL that writes the file')
    .option('--once', 'it works once')
    .addOption(
      new Option('--expires <time>', 'how long it works, at most 24h, such as 90s, 45m or 2h')
        .argParser(durationSecs)
        .default(3_600, '1h'),
    )
    .option('--max-bytes <n>', 'refuse a larger file (default with --put: 8 MiB)', integerFrom(1))
    .action((desktop: string, path: string, options: UrlOptions) => url(context, desktop, path, options))
  withJson(program.command('urls'), `dormouse urls ${id}\ndormouse urls ${id} --revoke ${id}`)
    .description('list the URLs that were made for files of a desktop')
    .argument('<id>', 'desktop')
    .option('--revoke <url-id>', 'end this one first')
    .action((desktop: string, options: UrlsOptions) => urls(context, desktop, options))
}

async function url(context: Context, desktop: string, path: string, options: UrlOptions): Promise<void> {
  context.about.id = desktop
  const { put, once, expires: expires_in_secs, maxBytes: max_bytes } = options
  const body = { path: path.startsWith('/') ? path : `/${path}`, method: put ? 'PUT' : 'GET', once } as const
  const call = { signal: context.terminal.signal }
  const made = await context.customer().fileUrls.create(desktop, { ...body, expires_in_secs, max_bytes }, call)
  context.show(options, made, () => `${made.url}\n`)
  if (options.json) return
  const what = `${put ? 'Writes' : 'Reads'} ${made.path}${made.once ? ' once' : ''}`
  context.terminal.note(`${what}, until ${made.expires_at}. End it: dormouse urls ${desktop} --revoke ${made.id}`)
}

async function urls(context: Context, desktop: string, options: UrlsOptions): Promise<void> {
  context.about.id = desktop
  const client = context.customer()
  const { signal } = context.terminal
  if (options.revoke !== undefined) await client.fileUrls.revoke(desktop, options.revoke, { signal })
  const listed = await client.fileUrls.list(desktop, { signal })
  context.show(options, listed, () => (listed.file_urls.length ? listing(listed.file_urls) : ''))
}

function listing(all: FileUrlJson[]): string {
  const rows = all.map(({ id, method, once, state, uses, expires_at, path }) => [
    id,
    method,
    state,
    once ? `${uses} of 1` : uses,
    expires_at,
    /\p{C}/u.test(path) ? JSON.stringify(path) : path,
  ])
  return table(['URL', 'METHOD', 'STATE', 'USED', 'EXPIRES', 'PATH'], rows)
}
