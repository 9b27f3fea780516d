// top: what the awake desktops use, the busiest first; on a terminal again and again.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client, DesktopJson, LastMetricsJson } from '@dormouse/client'
import type { Command } from 'commander'
import type { Context } from '../context.ts'
import { integerFrom, type JsonOption, withJson } from '../options.ts'
import { table } from '../terminal.ts'

interface Options extends JsonOption {
  select?: string
  limit: number
  once?: boolean
}

/** As often as hosts measure. */
const everyMs = 10_000
const atOnce = 8
const clearScreen = '\x1b[H\x1b[2J\x1b[3J'

/** Adds the command. */
export function addTop(program: Command, context: Context): void {
  withJson(program.command('top'), 'dormouse top --select team=qa')
    .description('show what your awake desktops use, the busiest first; on a terminal again every 10 s, until Ctrl-C')
    .option('--select <selector>', 'only those whose labels match, such as team=qa,run!=42')
    .option('--limit <n>', 'at most this many, the newest ones', integerFrom(1, 200), 50)
    .option('--once', 'show it once')
    .action((options: Options) => top(context, options))
}

async function top(context: Context, options: Options): Promise<void> {
  const { terminal } = context
  const client = context.customer()
  if (options.json || options.once || !process.stdout.isTTY) {
    const { desktops, more } = await read(client, options, terminal.signal)
    context.show(options, { desktops }, () => listing(desktops))
    if (more && !options.json) terminal.note('There are more; raise --limit.')
    return
  }
  context.about.endsByInterrupt = true
  for (;;) {
    const { desktops, more } = await read(client, options, terminal.signal)
    terminal.write(`${clearScreen}${listing(desktops)}${more ? 'There are more; raise --limit.\n' : ''}`)
    await sleep(everyMs, undefined, { signal: terminal.signal })
  }
}

async function read(client: Client, { select, limit }: Options, signal: AbortSignal) {
  const { desktops: awake, next } = await client.listDesktops({ state: 'awake', select, limit }, { signal })
  const ids = awake.map(({ id }) => id)
  const desktops: DesktopJson[] = []
  const readSome = async () => {
    for (let id = ids.shift(); id !== undefined; id = ids.shift())
      desktops.push(await client.getDesktop(id, { include: 'metrics', signal }))
  }
  await Promise.all(Array.from({ length: atOnce }, readSome))
  desktops.sort((a, b) => cpuOf(b) - cpuOf(a) || a.id.localeCompare(b.id))
  return { desktops, more: next !== undefined }
}

const cpuOf = ({ metrics }: DesktopJson): number => metrics?.cpu_percent ?? -1

function listing(desktops: DesktopJson[]): string {
  if (desktops.length === 0) return 'No desktop is awake.\n'
  const rows = desktops.map(({ id, name, metrics }) => [id, name, ...(metrics ? figuresOf(metrics) : unknown)])
  return table(['ID', 'NAME', 'CPU', 'MEMORY', 'READ', 'WRITTEN', 'RECEIVED', 'SENT'], rows)
}

const unknown: null[] = Array(6).fill(null)

function figuresOf(metrics: LastMetricsJson): string[] {
  const { cpu_percent: cpu, memory_used_mib: used, memory_mib: memory } = metrics
  const rates = [
    ...[metrics.disk_read_bytes_per_sec, metrics.disk_write_bytes_per_sec],
    ...[metrics.network_received_bytes_per_sec, metrics.network_sent_bytes_per_sec],
  ]
  return [cpu === null ? '-' : `${cpu} %`, `${used ?? '-'} of ${memory ?? '-'} MiB`, ...rates.map(rateOf)]
}

function rateOf(bytes: number | null): string {
  if (bytes === null) return '-'
  return bytes < 1_024 * 1_024 ? `${(bytes / 1_024).toFixed(0)} KiB/s` : `${(bytes / 1_024 / 1_024).toFixed(1)} MiB/s`
}
