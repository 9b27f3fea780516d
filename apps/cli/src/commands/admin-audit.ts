// admin audit: what operators changed, and what customers did on screens.
import type { AdminClient, AuditEntryJson, AuditQuery } from '@dormouse/client'
import type { Command } from 'commander'
import type { Context } from '../context.ts'
import { integerFrom, type JsonOption, timeFrom, withJson } from '../options.ts'
import { table } from '../terminal.ts'

const example = `dormouse admin audit --actor alice --since 2026-01-01
dormouse admin audit --action host.remove --json | jq -r .subject_name

With --json, each entry is one line, and all pages are printed, up to --limit.`

/** Adds the command. */
export function addAudit(command: Command, { operator, terminal }: Context): void {
  const { signal } = terminal
  withJson(command, example)
    .description('list what operators changed, and who took over whose screen, newest first')
    .option('--subject <id>', 'only entries about this desktop, host, organisation or key')
    .option('--actor <name>', 'only what this key did, by its name or id; or as in the entries')
    .option('--action <action>', 'only entries of this action, such as host.cordon')
    .option('--since <time>', 'a date or time in UTC: from then on', isoFrom)
    .option('--until <time>', 'a date or time in UTC: before then', isoFrom)
    .option('--limit <n>', 'at most this many (default: 100; with --json, all)', integerFrom(1))
    .option('--cursor <cursor>', 'the next page; the page before prints it')
    .action(async ({ json, ...query }: JsonOption & AuditQuery) => {
      if (json) {
        for await (const entry of allEntries(operator(), query, signal)) terminal.write(`${JSON.stringify(entry)}\n`)
        return
      }
      const { entries, next } = await operator().listAudit(query, { signal })
      if (entries.length > 0) terminal.write(table(columns, entries.map(rowOf)))
      else terminal.note('Nothing recorded yet.')
      if (next) terminal.note(`There is more: --cursor ${next}`)
    })
}

const pageMost = 1_000

async function* allEntries(
  client: AdminClient,
  { limit = Number.POSITIVE_INFINITY, ...query }: AuditQuery,
  signal: AbortSignal,
): AsyncGenerator<AuditEntryJson> {
  let { cursor } = query
  for (let left = limit; left > 0; ) {
    const page = await client.listAudit({ ...query, cursor, limit: Math.min(left, pageMost) }, { signal })
    yield* page.entries
    left -= page.entries.length
    cursor = page.next
    if (cursor === undefined) return
  }
}

const isoFrom = (text: string): string => new Date(timeFrom(text)).toISOString()

const columns = ['AT', 'ACTOR', 'ACTION', 'SUBJECT', 'DETAILS']

const rowOf = (one: AuditEntryJson) => [
  one.at,
  one.actor_name ?? one.actor,
  one.action,
  one.subject_name ?? one.subject,
  JSON.stringify(one.details),
]
