// admin host install: makes machines hosts over SSH, upgrades their agents, or takes them out of service.
import type { Command } from 'commander'
import type { Context } from '../context.ts'
import { CliError, exitCodes } from '../failures.ts'
import type { Work } from '../install/machine.ts'
import type { Report } from '../install/report.ts'
import type { Target } from '../install/target.ts'
import { type JsonOption, withJson } from '../options.ts'

interface Options extends JsonOption {
  check?: boolean
  dryRun?: boolean
  upgrade?: boolean
  uninstall?: boolean
  all?: boolean
  try?: boolean
  image?: string
  name?: string
  controlPlane?: string
  allowHttp?: boolean
  package?: string
  repository?: string
  signedBy?: string
  agentVersion?: string
  identity?: string
  jump?: string
  sshOption?: string[]
}

const example = `dormouse admin host install root@rack4-2 --package dormouse-agent_0.1.0_amd64.deb --try
dormouse admin host install root@rack4-2 --repository https://apt.example.com --signed-by key.asc
dormouse admin host install root@rack4-2 --check
dormouse admin host install --upgrade root@rack4-1 root@rack4-2
dormouse admin host install --uninstall root@rack4-2`

const notes = `
Checks the machine first and prints a table; nothing is changed if a check fails. Then it installs the agent's Debian package
with what it depends on, raises libvirt's limits, lets the agent check what it needs (\`dormouse-agent check\`), enrols the host,
starts the agent, and waits until it can be used. Run again, it changes only what is missing. It connects with \`ssh\`, so
\`~/.ssh/config\`, the SSH agent and known_hosts count as ever; if the user is not root, it uses sudo, and asks for its password
if there is one.`

/** Adds the command. */
export function addHostInstall(command: Command, context: Context): void {
  withJson(command.command('install'), example)
    .description('install, upgrade or uninstall the agent on machines, over SSH')
    .argument('[user@host...]', 'the machines; user@host:port')
    .option('--check', 'print the checks and change nothing')
    .option('--dry-run', 'the same as --check')
    .option('--try', 'then make a test desktop, run a command in it, and destroy it')
    .option('--image <version>', 'image of the test desktop; by default the first that the host has')
    .option('--upgrade', 'upgrade agents that are installed, one host after another; stops at the first failure')
    .option('--all', 'with --upgrade: every host of the service, by its name')
    .option('--uninstall', 'remove the host and its agent; refused while it has desktops')
    .option('--name <name>', 'name of the host for operators; by default the first part of its address')
    .option(
      '--control-plane <url>',
      'where the agent finds the control plane, or several, with commas; default: DORMOUSE_URL',
    )
    .option('--allow-http', 'the agent may use plain HTTP; only for a network of trusted machines')
    .option('--package <file>', 'the agent’s package, dormouse-agent_….deb, which is sent there')
    .option('--repository <url>', 'an apt repository that has the package; by default those of the machine')
    .option('--signed-by <file>', 'the public key of that repository')
    .option('--agent-version <version>', 'the version to install from a repository; by default the latest')
    .option('-J, --jump <user@host,…>', 'reach the machines through these, the first one first, as `ssh -J` does')
    .option('-i, --identity <file>', 'private key file; others are not tried')
    .option('-o, --ssh-option <Name=value>', 'an option of ssh_config; may be repeated', (each, all: string[] = []) => [
      ...all,
      each,
    ])
    .addHelpText('after', notes)
    .action((targets: string[], options: Options) => run(context, targets, options))
}

async function run(context: Context, words: string[], options: Options): Promise<void> {
  refuseMixtures(words, options)
  // Loaded only here: other commands start without it.
  const { startWork } = await import('../install/start.ts')
  const { readTarget } = await import('../install/target.ts')
  const work = startWork(context, options)
  const names = options.all ? await allHosts(work) : words
  const targets = names.map((name) => readTarget(name))
  const reports = await perform(work, targets, options)
  context.show(options, { hosts: reports }, () => '')
  if (!options.json) for (const report of reports) context.terminal.note(summary(report))
}

async function perform(work: Work, targets: Target[], options: Options): Promise<Report[]> {
  const checkOnly = Boolean(options.check ?? options.dryRun)
  if (options.upgrade && !checkOnly) return (await import('../install/upgrade.ts')).upgradeAll(work, targets)
  const [target] = targets
  if (options.uninstall) return [await (await import('../install/uninstall.ts')).uninstall(work, target!)]
  const { install } = await import('../install/install.ts')
  const reports: Report[] = []
  for (const each of targets) {
    const { name, image } = options
    reports.push(await install(work, each, { name, image, checkOnly, trial: options.try === true }))
  }
  return reports
}

/** The names of the hosts are taken for names on the network. */
async function allHosts({ admin, terminal }: Work): Promise<string[]> {
  const { hosts } = await admin.listHosts({ signal: terminal.signal })
  const present = hosts.filter(({ state }) => state === 'active' || state === 'unreachable')
  if (present.length === 0) throw new CliError('the service has no hosts', 'install one first', exitCodes.notFound)
  return present.map(({ name }) => name)
}

function refuseMixtures(words: string[], { all, upgrade, uninstall, name }: Options): void {
  const usage = (message: string, next: string) => new CliError(message, next, exitCodes.usage)
  const help = 'dormouse admin host install --help'
  if (all && !upgrade) throw usage('--all is for --upgrade', help)
  if (all ? words.length > 0 : words.length === 0)
    throw usage(all ? 'name machines or --all, not both' : 'name a machine', help)
  if (upgrade && uninstall) throw usage('--upgrade and --uninstall exclude each other', help)
  if (words.length > 1 && (uninstall || name))
    throw usage(`${uninstall ? '--uninstall' : '--name'} is for one machine`, 'run it for each')
}

function summary({ target, name, host_id, outcome, duration_ms }: Report): string {
  const who = name ? `${name} (${host_id})` : target
  const said = {
    checked: 'was checked; nothing was changed',
    blocked: 'cannot be installed',
    installed: 'is installed and usable',
    unchanged: 'needed no change',
    uninstalled: 'is uninstalled; images, libvirt and QEMU stay',
  }[outcome]
  return `${who} ${said} (${(duration_ms / 1_000).toFixed(1)} s)`
}
