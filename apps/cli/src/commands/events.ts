// events: what has changed, and what changes.
import type { Client, EventJson } from '@dormouse/client'
import type { Command } from 'commander'
import type { Context } from '../context.ts'
import { eventTypesOption, type JsonOption, withJson } from '../options.ts'
import { printable, table } from '../terminal.ts'

interface EventsCliOptions extends JsonOption {
  follow?: boolean
  after?: string
  desktop?: string
  select?: string
  type?: EventJson['type'][]
}

/** Adds the command. */
export function addEvents(program: Command, context: Context): void {
  withJson(program.command('events'), 'dormouse events --follow --type operation.failed')
    .description('show what has changed, oldest first, or follow what changes')
    .option(
      '--follow',
      'show what happens from now on, or behind --after, until Ctrl-C; with --json, one event per line',
    )
    .option('--after <cursor>', 'begin behind this event or cursor; without it and without --follow, at the oldest')
    .option('--desktop <id>', 'only events of this desktop')
    .option('--select <selector>', 'only events of desktops whose labels matched then, such as team=qa')
    .addOption(eventTypesOption())
    .action((options: EventsCliOptions) => (options.follow ? follow : list)(context, options))
}

const queryOf = ({ after, desktop, select, type }: EventsCliOptions) => ({
  ...{ after, desktopId: desktop, select, types: type },
})

async function follow({ terminal, customer, about }: Context, options: EventsCliOptions): Promise<void> {
  about.endsByInterrupt = true
  for await (const event of customer().events({ ...queryOf(options), signal: terminal.signal }))
    terminal.write(`${options.json ? JSON.stringify(event) : printable(lineOf(event).join('  '))}\n`)
  terminal.signal.throwIfAborted()
}

async function list(context: Context, options: EventsCliOptions): Promise<void> {
  const client = context.customer()
  const page = await wholeLog(client, options, context.terminal.signal)
  context.show(options, page, () => table(['ID', 'AT', 'TYPE', 'DESKTOP', 'WHAT'], page.events.map(lineOf)))
}

/** All pages: a filter may leave some of them short. */
async function wholeLog(client: Client, options: EventsCliOptions, signal: AbortSignal) {
  const events: EventJson[] = []
  for (let after = options.after; ; ) {
    const page = await client.listEvents({ ...queryOf(options), after, limit: 1_000 }, { signal })
    events.push(...page.events)
    if (!page.more) return { events, cursor: page.cursor }
    after = page.cursor
  }
}

const lineOf = ({ id, at, type, desktop_id, data }: EventJson): string[] => [
  ...[id, at, type, desktop_id ?? '-'],
  [data.kind, data.error ?? data.state ?? data.claim ?? data.name].filter(Boolean).join(' '),
]
