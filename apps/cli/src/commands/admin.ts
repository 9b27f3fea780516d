// admin: organisations, keys, hosts and the audit log. For operators.
import type { HostJson, OrgJson, TrustedHostJson } from '@dormouse/client'
import { type Command, Option } from 'commander'
import type { Context } from '../context.ts'
import { integerFrom, type JsonOption, withJson } from '../options.ts'
import { fields, table } from '../terminal.ts'
import { addAudit } from './admin-audit.ts'
import { addAdminDesktop } from './admin-desktop.ts'
import { addInvites, addKeys, addOperatorKeys } from './admin-keys.ts'
import { addQuotas } from './admin-quotas.ts'
import { addHostDrain } from './host-drain.ts'
import { addHostInstall } from './host-install.ts'
import { addHostRemove, addHostReturn } from './host-remove.ts'
import { addImages } from './images.ts'
import { addOperationCause } from './operation-cause.ts'
import { addUpgrades } from './upgrades.ts'

const org = '019a9f00-0000-7000-8000-0000000000ff'

/** Adds the operators' commands. */
export function addAdmin(program: Command, context: Context): void {
  const admin = program
    .command('admin')
    .description('organisations, keys, hosts, desktops, images and the audit log (needs an operator key)')
  addOrgs(admin.command('org').description('organisations'), context)
  addKeys(admin.command('key').description('API keys of an organisation'), context)
  addOperatorKeys(admin.command('operator-key').description('keys of operators, and keys that read metrics'), context)
  addHosts(admin.command('host').description('hosts that run desktops'), context)
  addImages(admin.command('image').description('images that desktops are made from'), context)
  addAdminDesktop(admin.command('desktop'), context)
  addUpgrades(admin.command('upgrade').description('upgrades of replicas and hosts'), context)
  addReplicas(admin.command('replicas'), context)
  addAlarms(admin.command('alarms'), context)
  addDeferred(admin.command('deferred'), context)
  addOperationCause(admin.command('operation'), context)
  addAudit(admin.command('audit'), context)
}

function addOrgs(command: Command, context: Context): void {
  const { operator, show, terminal } = context
  const { signal } = terminal
  withJson(command.command('create'), 'dormouse admin org create acme --json')
    .description('create an organisation')
    .argument('<name>', 'its name')
    .action(async (name: string, options: JsonOption) => {
      const made = await operator().createOrg({ name }, { signal })
      show(options, made, () => fields({ id: made.id, name: made.name, created: made.created_at }))
    })
  withJson(command.command('list'), 'dormouse admin org list')
    .description('list organisations')
    .action(async (options: JsonOption) => {
      const found = await operator().listOrgs({ signal })
      const byDefault = `${found.default_max_desktops} (default)`
      const rows = found.orgs.map((one) => [
        ...[one.id, one.name, one.max_desktops ?? byDefault, one.created_at, one.suspended_at],
      ])
      show(options, found, () => table(['ID', 'NAME', 'MAX DESKTOPS', 'CREATED', 'SUSPENDED'], rows))
    })
  withJson(command.command('suspend'), `dormouse admin org suspend ${org}`)
    .description('let no desktop of an organisation wake; those that are awake hibernate, and nothing is lost')
    .argument('<id>', 'organisation')
    .action(async (id: string, options: JsonOption) => {
      const suspended = await operator().suspendOrg(id, { signal })
      show(options, suspended, () => `${suspended.name} is suspended: its desktops hibernate, and none wakes\n`)
    })
  withJson(command.command('resume'), `dormouse admin org resume ${org}`)
    .description('let the desktops of a suspended organisation wake again')
    .argument('<id>', 'organisation')
    .action(async (id: string, options: JsonOption) => {
      const resumed = await operator().resumeOrg(id, { signal })
      show(options, resumed, () => `${resumed.name} is not suspended: its desktops can be woken\n`)
    })
  withJson(command.command('limit'), `dormouse admin org limit ${org} --max-desktops 500`)
    .description('limit how many desktops an organisation may have; existing ones stay')
    .argument('<id>', 'organisation')
    .addOption(new Option('--max-desktops <n>', 'the limit').argParser(integerFrom(0)).conflicts('default'))
    .option('--default', 'use the default limit of the service')
    .action(async (id: string, options: JsonOption & { maxDesktops?: number; default?: boolean }, own: Command) => {
      const { maxDesktops = null } = options
      if (maxDesktops === null && !options.default) own.error('error: use --max-desktops <n> or --default')
      const changed = await operator().changeOrg(id, { max_desktops: maxDesktops }, { signal })
      show(options, changed, () => fields({ id: changed.id, name: changed.name, 'max desktops': limitOf(changed) }))
    })
  addQuotas(command, context)
}

function addHosts(command: Command, context: Context): void {
  const { operator, show, terminal } = context
  const { signal } = terminal
  addHostInstall(command, context)
  addInvites(command, context)
  withJson(command.command('cordon'), 'dormouse admin host cordon rack4-2')
    .description('place no new desktops on a host; those on it go on')
    .argument('<host>', 'name or id')
    .action(async (host: string, options: JsonOption) => {
      const cordoned = await operator().cordonHost(host, { signal })
      show(options, cordoned, () => `${cordoned.name} is cordoned: it gets no new desktops\n`)
    })
  withJson(command.command('uncordon'), 'dormouse admin host uncordon rack4-2')
    .description('place new desktops on a host again; ends its quarantine, too')
    .argument('<host>', 'name or id')
    .action(async (host: string, options: JsonOption) => {
      const open = await operator().uncordonHost(host, { signal })
      show(options, open, () => `${open.name} is not cordoned: it gets new desktops\n`)
    })
  withJson(command.command('rotate-key'), 'dormouse admin host rotate-key rack4-2')
    .description('replace the key with which a linked host proves itself; its desktops are not touched')
    .argument('<host>', 'name or id')
    .action(async (host: string, options: JsonOption) => {
      const rotated = await operator().rotateHostKey(host, { signal })
      show(options, rotated, () => `${host} has a new key, and nobody links with the old one\n`)
    })
  withJson(command.command('drop-warm'), 'dormouse admin host drop-warm rack4-2')
    .description('free the memory that a host uses for paused copies of sleeping desktops; they wake from disk then')
    .argument('<host>', 'name or id')
    .action(async (host: string, options: JsonOption) => {
      const { dropped } = await operator().dropWarmCopies(host, { signal })
      show(options, { dropped }, () => `${dropped} warm ${dropped === 1 ? 'copy was' : 'copies were'} ended\n`)
    })
  addHostDrain(command, { operator, show, terminal })
  addHostRemove(command, { operator, show, terminal })
  addHostReturn(command, { operator, show, terminal })
  withJson(command.command('trust'), 'dormouse admin host trust rack4-2')
    .description('send commands again to a host that `host list` shows as withheld; for use after a database restore')
    .argument('<host>', 'name or id')
    .action(async (host: string, options: JsonOption) => {
      const trusted = await operator().trustHost(host, { signal })
      show(options, trusted, () => trustWords(trusted))
    })
  withJson(command.command('list'), 'dormouse admin host list')
    .description('list hosts')
    .action(async (options: JsonOption) => {
      const { hosts } = await operator().listHosts({ signal })
      show(options, { hosts }, () => table(hostColumns, hosts.map(hostRow)))
    })
}

function addReplicas(command: Command, { operator, show, terminal }: Context): void {
  withJson(command, 'dormouse admin replicas')
    .description('list the control planes that run, and which of them leads')
    .action(async (options: JsonOption) => {
      const { replicas } = await operator().listReplicas({ signal: terminal.signal })
      const rows = replicas.map((one) => [
        one.id,
        one.url,
        `${one.version} ${one.commit}`,
        one.leads ? 'yes' : 'no',
        one.started_at,
      ])
      show(options, { replicas }, () => table(['ID', 'URL', 'VERSION', 'LEADS', 'STARTED'], rows))
    })
}

function addAlarms(command: Command, { operator, show, terminal }: Context): void {
  withJson(command, 'dormouse admin alarms')
    .description('list what is wrong now, since when, and what to do; each is logged once, when it begins')
    .action(async (options: JsonOption) => {
      const { alarms } = await operator().listAlarms({ signal: terminal.signal })
      const rows = alarms.map((one) => [one.since, one.kind, one.host_id, one.desktop_id, one.what, one.next])
      show(options, { alarms }, () => (rows.length ? table(alarmColumns, rows) : ''))
      if (!rows.length && !options.json) terminal.note('Nothing is wrong.')
    })
}

const alarmColumns = ['SINCE', 'KIND', 'HOST', 'DESKTOP', 'WHAT', 'WHAT TO DO']

function addDeferred(command: Command, { operator, show, terminal }: Context): void {
  withJson(command, 'dormouse admin deferred')
    .description('list commands that hosts could not carry out yet, and why; the service retries them')
    .action(async (options: JsonOption) => {
      const { deferred_commands } = await operator().listDeferred({ signal: terminal.signal })
      const rows = deferred_commands.map((one) => [
        one.created_at,
        one.desktop_id,
        one.host_id,
        one.command.replace(/^desktop\.ensure|^move\./, '').toLowerCase(),
        one.attempts,
        one.last_error,
      ])
      show(options, { deferred_commands }, () => (rows.length ? table(deferredColumns, rows) : ''))
      if (!rows.length && !options.json) terminal.note('No command waits for a host.')
    })
}

const deferredColumns = ['SINCE', 'DESKTOP', 'HOST', 'TO BE', 'TRIES', 'LAST ERROR']

const trustWords = ({ name, was_withheld }: TrustedHostJson): string =>
  was_withheld === false ? `${name} was not withheld; nothing to do\n` : `${name} is trusted: it gets commands again\n`

const limitOf = ({ max_desktops }: OrgJson): number | string => max_desktops ?? 'default'

const hostColumns = [
  'ID',
  'NAME',
  'STATE',
  'VERSION',
  'DRIVER',
  'KVM',
  'DESKTOPS',
  'PROCESSORS',
  'VCPUS',
  'MEMORY MIB',
  'WARM MIB',
  'TEMPLATES',
  'LAST HEARTBEAT',
  'AILMENT',
]

function hostRow(host: HostJson): (string | number | null)[] {
  const { capacity, reserved } = host
  return [
    host.id,
    host.name,
    [host.state, host.withheld && 'withheld', host.cordoned && 'cordoned', host.quarantine && 'quarantined']
      .filter(Boolean)
      .join(', '),
    host.version && [host.version, host.commit].filter(Boolean).join(' '),
    host.driver,
    host.kvm === null ? null : host.kvm ? 'yes' : 'no',
    host.desktops,
    host.processors && Number(host.processors.toFixed(2)),
    capacity && `${reserved.vcpus}/${capacity.vcpus}`,
    capacity && `${reserved.memory_mib}/${capacity.memory_mib}`,
    host.warm && `${host.warm.memory_mib}/${host.warm.max_mib}`,
    host.templates?.map(({ image, memory_mib }) => `${image} (${memory_mib} MiB)`).join(', ') ?? null,
    host.last_heartbeat_at,
    host.ailment ?? host.quarantine?.reason ?? null,
  ]
}
