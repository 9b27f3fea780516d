// Commands and files in a machine of a test, as root over SSH. Reads nothing of the user's own.
import { run } from '../../scripts/testbed/processes.ts'

/** Where a machine's SSH server is. */
export interface Reach {
  key: string
  address: string
  port: number
  /** The path of the network namespace from which it is reached; by default this machine's own network. */
  network?: string | undefined
}

/** Arguments with which `ssh` logs in with this key alone. */
export function sshArgs(key: string): string[] {
  const options = ['StrictHostKeyChecking=no', 'UserKnownHostsFile=/dev/null', 'LogLevel=ERROR', 'ConnectTimeout=10']
  return ['-F', 'none', '-i', key, ...options.flatMap((option) => ['-o', option])]
}

/** Runs a command with this input. */
export function overSsh(reach: Reach, command: string, input = ''): Promise<string> {
  const [program, ...words] = commandOf(reach)
  return run(program!, [...words, command], { input })
}

/** Copies what a folder has into one of the machine; the target of a link in its place. */
export async function copyOverSsh(reach: Reach, folder: string, to: string): Promise<void> {
  const script = 'from=$1 to=$2; shift 2; tar -C "$from" -chf - . | "$@" "mkdir -p $to && tar -C $to -xf -"'
  await run('bash', ['-o', 'pipefail', '-c', script, 'bash', folder, to, ...commandOf(reach)])
}

function commandOf({ key, address, port, network }: Reach): string[] {
  const words = ['ssh', ...sshArgs(key), '-p', String(port), `root@${address}`]
  return network ? ['nsenter', `--net=${network}`, ...words] : words
}
