// What the next release changes, as a release does: a setting, a field of each message of the link, and a use of the column
// that its migration adds. Each text is found exactly once.

export interface Edit {
  file: string
  find: string
  put: string
}

export const edits: readonly Edit[] = [
  {
    file: 'apps/control-plane/src/config.ts',
    find: `  databasePool: whole(`,
    put: `  motto: setting('DORMOUSE_NEXT_MOTTO', 'a setting of the next release', z.string().min(1).optional()),
  databasePool: whole(`,
  },
  {
    file: 'apps/control-plane/src/leadership/store.ts',
    find: '`insert into replicas (id, url, version, commit) values ($1, $2, $3, $4)',
    put: "`insert into replicas (id, url, version, commit, motto) values ($1, $2, $3, $4, 'onward')",
  },
  {
    file: 'packages/contract/src/agents.ts',
    find: `export const hostFacts = z.object({`,
    put: `export const hostFacts = z.object({\n  mood: said(100).optional(),`,
  },
  {
    file: 'apps/agent/src/facts.ts',
    find: `      agentVersion: release.version,`,
    put: `      agentVersion: release.version,\n      mood: 'onward',`,
  },
  {
    file: 'packages/contract/src/commands.ts',
    find: `nextDiskGiB: desktopSpec.shape.diskGiB.optional(),`,
    put: `nextDiskGiB: desktopSpec.shape.diskGiB.optional(), pace: z.enum(['brisk']).optional(),`,
  },
  {
    file: 'apps/control-plane/src/desktops/operations/wake.ts',
    find: `source: sourceOf(input) }`,
    put: `source: sourceOf(input), pace: 'brisk' as const }`,
  },
]
