// usage: how long the organisation's desktops were awake and hibernated.
import type { UsageJson } from '@dormouse/client'
import type { Command } from 'commander'
import type { Context } from '../context.ts'
import { type JsonOption, timeFrom, withJson } from '../options.ts'
import { table } from '../terminal.ts'

interface Options extends JsonOption {
  start?: number
  end?: number
  select?: string
}

/** Adds `usage`. */
export function addUsage(program: Command, context: Context): void {
  withJson(program.command('usage'), 'dormouse usage --start 2026-01-01 --end 2026-02-01')
    .description('show how long your desktops were awake and hibernated')
    .option('--start <time>', 'a date or time in UTC (default: the start of this month)', secondsFrom)
    .option('--end <time>', 'a date or time in UTC (default: now)', secondsFrom)
    .option('--select <selector>', 'only desktops whose labels match, such as team=qa')
    .action((options: Options) => usage(context, options))
}

async function usage(context: Context, options: Options): Promise<void> {
  const { start, end, select } = options
  const seen = await context.customer().getUsage({ start, end, select }, { signal: context.terminal.signal })
  context.show(options, seen, () => describe(seen))
}

function describe({ desktops, totals }: UsageJson): string {
  const row = (name: string, one: UsageJson['totals'][number]) => [
    name,
    one.tier,
    one.billing_mode,
    hours(one.awake_seconds),
    hours(one.hibernated_seconds),
  ]
  return table(
    ['DESKTOP', 'TIER', 'BILLING', 'AWAKE', 'HIBERNATED'],
    [...desktops.map((one) => row(one.desktop_id, one)), ...totals.map((one) => row('total', one))],
  )
}

const hours = (secs: number): string => `${(secs / 3_600).toFixed(2)} h`

const secondsFrom = (text: string): number => timeFrom(text) / 1_000
