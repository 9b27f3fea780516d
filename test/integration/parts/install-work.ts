// What the commands of `admin host install` get, with a terminal that a test types at.
import { createAdminClient, createClient } from '@dormouse/client'
import type { Work } from '../../../apps/cli/src/install/machine.ts'
import type { Source } from '../../../apps/cli/src/install/package.ts'
import type { Terminal } from '../../../apps/cli/src/terminal.ts'
import type { Stack } from '../../stack.ts'

export interface InstallGiven {
  source: Source
  /** By default the stack's. */
  controlPlanes?: string[]
  session: Work['session']
  /** Called when a step begins, and with each progress that it shows. */
  onProgress?: (step: string, shown: string) => void
  /** What a person types; undefined: nobody is there. */
  typed?: string[]
}

const operators = new WeakMap<Stack, Promise<string>>()

/** With an operator's key of this stack. */
export async function installWork(stack: Stack, given: InstallGiven): Promise<Work> {
  const operatorKey = await operatorOf(stack)
  return {
    terminal: terminalOf(given),
    admin: createAdminClient({ baseUrl: stack.url, operatorKey }),
    customerWith: (apiKey) => createClient({ baseUrl: stack.url, apiKey }),
    source: given.source,
    session: given.session,
    controlPlanes: given.controlPlanes ?? [stack.url],
    allowHttp: false,
    json: false,
  }
}

function operatorOf(stack: Stack): Promise<string> {
  const known = operators.get(stack)
  if (known) return known
  const made = stack.replica.parts.principals.createOperatorKey('test')
  operators.set(stack, made)
  return made.then((key) => {
    stack.secrets.learn('the operator’s key', key)
    return key
  })
}

function terminalOf({ onProgress, typed }: InstallGiven): Terminal {
  return {
    signal: new AbortController().signal,
    takeSignals: () => () => undefined,
    interactive: typed !== undefined,
    write: () => undefined,
    note: () => undefined,
    ask: async () => typed?.shift() ?? '',
    during: async (label, run) => {
      const step = label.split(': ').at(-1)!
      onProgress?.(step, '')
      return run((shown) => onProgress?.(step, shown))
    },
    progress: () => ({ add: () => undefined, end: () => undefined, elapsedMs: () => 0 }),
  }
}
