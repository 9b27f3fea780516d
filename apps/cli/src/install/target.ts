// The machine that a command is about: `user@host`, with a port.
import { userInfo } from 'node:os'
import { CliError, exitCodes } from '../failures.ts'

export interface Target {
  user: string
  host: string
  port: number
  /** How messages name it. */
  label: string
}

const sshPort = 22
/** Names and addresses alone: nothing that a shell, a terminal or known_hosts reads differently. */
const form = /^(?:([a-z_][\w.-]{0,31})@)?(?:\[([\da-f:.%\w]+)\]|([a-z0-9](?:[\w.-]*[a-z0-9])?))(?::(\d{1,5}))?$/i

/** Reads `host`, `user@host`, `user@host:port` or `user@[address]:port`. */
export function readTarget(text: string, defaults: { user?: string; port?: number } = {}): Target {
  const [, user = defaults.user ?? userInfo().username, ipv6, name, port] = form.exec(text) ?? []
  const host = ipv6 ?? name
  const number = port ? Number(port) : (defaults.port ?? sshPort)
  if (!host || number < 1 || number > 65_535)
    throw new CliError(`"${text}" does not name a machine`, 'write user@host or user@host:port', exitCodes.usage)
  return { user, host, port: number, label: `${user}@${host}${number === sshPort ? '' : `:${number}`}` }
}
