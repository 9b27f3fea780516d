// The machine that a command is about: `user@host`, with a port, or a name from `~/.ssh/config`.
import { CliError, exitCodes } from '../failures.ts'

export interface Target {
  /** The arguments of `ssh` that name it. */
  words: readonly string[]
  /** The name or address alone. */
  host: string
  /** How messages name it. */
  label: string
}

/** Names and addresses alone: nothing that a shell or `ssh` reads as an option. */
const form = /^(?:([a-z_][\w.-]{0,31})@)?(?:\[([\da-f:.%\w]+)\]|([a-z0-9](?:[\w.-]*[a-z0-9])?))(?::(\d{1,5}))?$/i

/** Reads `host`, `user@host`, `user@host:port` or `user@[address]:port`. What is missing, `ssh` finds in its configuration. */
export function readTarget(text: string): Target {
  const [, user, ipv6, name, port] = form.exec(text) ?? []
  const host = ipv6 ?? name
  if (!host || (port && (Number(port) < 1 || Number(port) > 65_535)))
    throw new CliError(`"${text}" does not name a machine`, 'write user@host or user@host:port', exitCodes.usage)
  return { words: [...(port ? ['-p', port] : []), user ? `${user}@${host}` : host], host, label: text }
}
