// quotas: how many desktops the organisation may have, and has.
import type { Command } from 'commander'
import type { Context } from '../context.ts'
import { type JsonOption, withJson } from '../options.ts'
import { table } from '../terminal.ts'

/** Adds `quotas`. */
export function addOwnQuotas(program: Command, { customer, show, terminal }: Context): void {
  withJson(program.command('quotas'), 'dormouse quotas')
    .description('show how many desktops you may have and have: in all, and with certain labels')
    .action(async (options: JsonOption) => {
      const seen = await customer().listQuotas({ signal: terminal.signal })
      const all = ['all desktops', '', seen.max_desktops, seen.desktops]
      const rows = seen.quotas.map((one) => [one.name, one.select, one.max_desktops, one.desktops])
      show(options, seen, () => table(['QUOTA', 'SELECT', 'MAX DESKTOPS', 'DESKTOPS'], [all, ...rows]))
    })
}
