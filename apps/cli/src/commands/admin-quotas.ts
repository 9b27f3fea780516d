// admin org: quotas of an organisation's desktops by their labels.
import type { QuotaJson } from '@dormouse/client'
import type { Command } from 'commander'
import type { Context } from '../context.ts'
import { integerFrom, type JsonOption, withJson } from '../options.ts'
import { table } from '../terminal.ts'

const org = '019a9f00-0000-7000-8000-0000000000ff'

type SetOptions = JsonOption & { select: string; maxDesktops: number }

/** Adds the commands. */
export function addQuotas(command: Command, { operator, show, terminal: { signal } }: Context): void {
  withJson(command.command('quotas'), `dormouse admin org quotas ${org}`)
    .description('list the quotas of an organisation’s desktops by their labels')
    .argument('<id>', 'organisation')
    .action(async (id: string, options: JsonOption) => {
      const found = await operator().listQuotas(id, { signal })
      show(options, found, () => tableOf(found.quotas))
    })
  withJson(command.command('set-quota'), `dormouse admin org set-quota ${org} qa --select team=qa --max-desktops 20`)
    .description('limit how many desktops of an organisation have certain labels; existing ones stay')
    .argument('<id>', 'organisation')
    .argument('<name>', 'a name for the quota; one of that name is replaced')
    .requiredOption('--select <selector>', 'it counts the desktops whose labels match, such as team=qa')
    .requiredOption('--max-desktops <n>', 'the limit', integerFrom(0))
    .action(async (id: string, name: string, { select, maxDesktops, ...options }: SetOptions) => {
      const quota = await operator().setQuota(id, name, { select, max_desktops: maxDesktops }, { signal })
      show(options, quota, () => tableOf([quota]))
    })
  withJson(command.command('remove-quota'), `dormouse admin org remove-quota ${org} qa`)
    .description('end a quota of an organisation')
    .argument('<id>', 'organisation')
    .argument('<name>', 'of the quota')
    .action(async (id: string, name: string, options: JsonOption) => {
      await operator().removeQuota(id, name, { signal })
      show(options, { name, removed: true }, () => `${name} is removed\n`)
    })
}

const tableOf = (quotas: QuotaJson[]): string =>
  table(
    ['NAME', 'SELECT', 'MAX DESKTOPS', 'DESKTOPS'],
    quotas.map((one) => [one.name, one.select, one.max_desktops, one.desktops]),
  )
