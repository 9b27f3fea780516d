// Collects what an installation needs from the command line.
import type { Context } from '../context.ts'
import { CliError, exitCodes } from '../failures.ts'
import type { Work } from './machine.ts'
import { sourceOf } from './package.ts'

interface Given {
  json?: boolean
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

/** Everything that is the same for all machines of a command. */
export function startWork(context: Context, given: Given): Work {
  const { identity, jump, sshOption = [] } = given
  return {
    terminal: context.terminal,
    admin: context.operator(),
    customerWith: context.customerWith,
    source: sourceOf(given),
    session: {
      args: [
        ...(identity ? ['-i', identity, '-o', 'IdentitiesOnly=yes'] : []),
        ...(jump ? ['-J', jump] : []),
        ...sshOption.flatMap((option) => ['-o', option]),
      ],
    },
    controlPlanes: urlsIn(given.controlPlane ?? context.baseUrl()),
    allowHttp: given.allowHttp === true,
    json: given.json === true,
  }
}

/** An agent refuses other addresses. */
function urlsIn(text: string): string[] {
  const urls = text.split(',').map((url) => url.trim().replace(/\/+$/, ''))
  const wrong = urls.find((url) => !/^https?:\/\/[\w.:/-]+$/.test(url) || !URL.canParse(url))
  if (wrong === undefined) return urls
  throw new CliError(
    `"${wrong}" is not the address of a control plane`,
    'set --control-plane https://…',
    exitCodes.usage,
  )
}
