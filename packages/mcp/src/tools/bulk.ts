// A tool for many desktops: wakes or hibernates those that a selector chooses. Destroying many is left to people.
import { z } from 'zod'
import { tool } from '../tool.ts'

/** Reasons that an agent reads. The text says how many more there are. */
const shownRows = 20

export const bulk = tool({
  name: 'desktop_bulk',
  title: 'Wake or hibernate many desktops',
  description:
    'Wakes or hibernates all desktops whose labels match, and waits until each has settled. With dry_run it says what it would do.',
  grant: 'power',
  onDesktop: false,
  idempotent: true,
  input: {
    action: z.enum(['wake', 'hibernate']),
    select: z.string().min(1).max(2_000).describe('Such as team=qa,run!=42'),
    dry_run: z.boolean().default(false),
  },
  output: {
    total: z.int(),
    succeeded: z.int(),
    failed: z.int(),
    skipped: z.int(),
    reasons: z.array(z.string()).describe('Of those that failed or were skipped'),
  },
  run: async ({ action, select, dry_run }, { client, signal }) => {
    const begun = await client.bulk.create({ action, select, ...(dry_run && { dry_run }) }, { signal })
    const plan = begun.id === null ? begun : await client.bulk.settled(begun.id, { signal })
    const because = plan.desktops.flatMap(({ desktop_id: id, reason }) => (reason ? [`${id}: ${reason.detail}`] : []))
    const { total, succeeded, failed, skipped, waiting } = plan.progress
    const head =
      begun.id === null
        ? `${total} desktops match; ${waiting} would ${action}`
        : `${total} desktops match; ${succeeded} succeeded, ${failed} failed, ${skipped} were skipped`
    const more = because.length - shownRows
    const lines = [head, ...because.slice(0, shownRows), ...(more > 0 ? [`and ${more} more`] : [])]
    return { text: lines.join('\n'), data: { total, succeeded, failed, skipped, reasons: because.slice(0, shownRows) } }
  },
})
