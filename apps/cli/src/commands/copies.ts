// copies: what a desktop’s vault has of it, a restore, and the policies by which copies are made.
import type { CopyPolicyBody, CopyPolicyJson } from '@dormouse/client'
import { type Command, InvalidArgumentError, Option } from 'commander'
import type { Context } from '../context.ts'
import { type JsonOption, timeoutOption, withJson } from '../options.ts'
import { table } from '../terminal.ts'
import { following, waiting } from './following.ts'
import { outcome } from './transitions.ts'

const id = '019a9f00-0000-7000-8000-000000000001'
const copyId = '019a9f00-0000-7000-8000-0000000000cc'

interface RestoreOptions extends JsonOption {
  wait: boolean
  timeoutSecs: number
}

interface PolicyOptions extends JsonOption {
  select?: string
  when?: CopyPolicyBody['when']
  keep?: CopyPolicyBody['keep']
  recover?: CopyPolicyBody['recover']
  remove?: boolean
}

/** Adds `copies` with its commands. */
export function addCopies(program: Command, context: Context): void {
  const copies = program.command('copies').description('copies of desktops in vaults, off their hosts')
  withJson(copies.command('list'), `dormouse copies list ${id}`)
    .description('list a desktop’s copies, newest first')
    .argument('<id>', 'desktop')
    .action((desktop: string, options: JsonOption) => list(context, desktop, options))
  withJson(copies.command('restore'), `dormouse copies restore ${id} ${copyId}`)
    .description('bring a copy back in place of what the desktop has')
    .argument('<id>', 'desktop')
    .argument('<copy>', 'copy, as `dormouse copies list` shows it')
    .option('--no-wait', 'print the operation and do not wait')
    .addOption(timeoutOption())
    .action((desktop: string, copy: string, options: RestoreOptions) => restore(context, desktop, copy, options))
  withJson(copies.command('policies'), 'dormouse copies policies')
    .description('list the policies by which copies are made; the first by name that selects a desktop is its')
    .action((options: JsonOption) => policies(context, options))
  withJson(
    copies.command('policy'),
    'dormouse copies policy qa --select team=qa --keep last=3,daily=7,weekly=4\ndormouse copies policy qa --remove',
  )
    .description('set a policy, or remove it')
    .argument('<name>', 'policy')
    .option('--select <selector>', 'the desktops that it is for, such as team=qa (default: all)')
    .addOption(new Option('--when <when>', 'when they are copied').choices(['every-sleep', 'off']))
    .addOption(new Option('--keep <counts>', 'which copies stay, such as last=3,daily=7,weekly=4').argParser(keepFrom))
    .addOption(
      new Option('--recover <how>', 'whether a wake after its host was lost restores').choices(['manual', 'automatic']),
    )
    .addOption(new Option('--remove', 'remove the policy').conflicts(['select', 'when', 'keep', 'recover']))
    .action((name: string, options: PolicyOptions) => policy(context, name, options))
}

async function list(context: Context, desktop: string, options: JsonOption): Promise<void> {
  context.about.id = desktop
  const { copies } = await context.customer().copies.list(desktop, { signal: context.terminal.signal })
  const rows = () => copies.map((one) => [one.id, one.kind, one.taken_at, mib(one.size_bytes), one.vault])
  context.show(options, { copies }, () =>
    copies.length ? table(['ID', 'KIND', 'TAKEN', 'SIZE', 'VAULT'], rows()) : '',
  )
  if (!copies.length && !options.json) context.terminal.note('This desktop has no copies.')
}

const mib = (bytes: number): string => `${Math.ceil(bytes / 1024 ** 2)} MiB`

async function restore(context: Context, desktop: string, copy: string, options: RestoreOptions): Promise<void> {
  context.about.id = desktop
  const { signal } = context.terminal
  const client = context.customer()
  const begun = await client.copies.restore(desktop, copy, { signal })
  const timeoutMs = options.timeoutSecs * 1_000
  const work = (show?: (text: string) => void) =>
    following(client, show, (onProgress) => client.waitForOperation(begun.id, { timeoutMs, signal, onProgress }))
  const operation = options.wait
    ? await waiting(context, `restoring ${desktop}`, `\`dormouse operation ${begun.id}\` shows the outcome`, work)
    : begun
  context.show(options, operation, () => outcome(operation))
}

async function policies(context: Context, options: JsonOption): Promise<void> {
  const seen = await context.customer().copies.policies({ signal: context.terminal.signal })
  context.show(options, seen, () => shown(seen.policies))
  if (!seen.policies.length && !options.json) context.terminal.note('There are none: the operator’s applies to all.')
}

async function policy(context: Context, name: string, { remove, json, ...body }: PolicyOptions): Promise<void> {
  const { copies } = context.customer()
  const { signal } = context.terminal
  const options = json === undefined ? {} : { json }
  if (remove) {
    await copies.removePolicy(name, { signal })
    return context.show(options, { removed: name }, () => `${name} is removed\n`)
  }
  const put = await copies.putPolicy(name, body, { signal })
  context.show(options, put, () => shown([put]))
}

function shown(all: readonly CopyPolicyJson[]): string {
  const keep = ({ last, daily, weekly }: CopyPolicyJson['keep']) => `last=${last},daily=${daily},weekly=${weekly}`
  const rows = all.map((one) => [one.name, one.select ?? 'all', one.when, keep(one.keep), one.recover])
  return rows.length ? table(['POLICY', 'SELECT', 'WHEN', 'KEEP', 'RECOVER'], rows) : ''
}

function keepFrom(text: string): NonNullable<CopyPolicyBody['keep']> {
  const pairs = text.split(',').map((pair) => /^(last|daily|weekly)=(\d{1,4})$/.exec(pair))
  if (pairs.some((pair) => pair === null)) throw new InvalidArgumentError('It must be such as last=3,daily=7,weekly=4.')
  return Object.fromEntries(pairs.map((pair) => [pair![1]!, Number(pair![2])]))
}
