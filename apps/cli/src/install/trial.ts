// `--try`: a desktop on the new host is made, woken, used and destroyed, in an organisation of its own.
import {
  type AdminClient,
  type AdminOperationJson,
  type Client,
  type HostJson,
  OperationFailedError,
} from '@dormouse/client'
import { CliError, exitCodes } from '../failures.ts'

const orgName = 'dormouse-install-trial'
const timeoutMs = 300_000

interface Trial {
  admin: AdminClient
  customerWith(apiKey: string): Client
  host: HostJson
  image?: string | undefined
  signal: AbortSignal
  show: ((text: string) => void) | undefined
}

/** What was tried, in one line. Rejects if the host cannot run a desktop. */
export async function tryDesktop(trial: Trial): Promise<string> {
  const { admin, host, signal } = trial
  const image = trial.image ?? host.images[0]
  if (!image)
    throw new CliError(
      `${host.name} has no image, so it can run no desktop yet`,
      'add one (docs/runbooks/install-a-host.md), then run the same command again',
      exitCodes.failed,
      { host_id: host.id },
    )
  const org = await ownOrg(admin, signal)
  const key = await admin.createKey({ org_id: org, name: 'trial' }, { signal })
  const client = trial.customerWith(key.api_key)
  let desktop: string | undefined
  try {
    desktop = (await client.createDesktop({ tier: 'small', image_version: image }, { signal })).id
    trial.show?.('waking a test desktop')
    const began = performance.now()
    await wakeOn(trial, desktop)
    const wokeMs = performance.now() - began
    const ran = await client.exec(desktop, { command: ['uname', '-r'] }, { signal })
    if (ran.exit_code !== 0)
      throw new CliError(`a command in the test desktop exited with ${ran.exit_code}`, 'check the image')
    return `a desktop with ${image} woke in ${(wokeMs / 1_000).toFixed(1)} s and ran a command`
  } finally {
    // Also after Ctrl-C: nothing of it may stay.
    trial.show?.('destroying the test desktop')
    if (desktop) await client.settle('destroy', desktop, {}, { timeoutMs }).catch(() => undefined)
    await admin.revokeKey(key.id).catch(() => undefined)
  }
}

/** Wakes it on the host, and on no other one. */
async function wakeOn({ admin, host, signal }: Trial, desktop: string): Promise<void> {
  const begun = await admin.wakeDesktop(desktop, { host: host.id }, { signal })
  await admin.waitForOperation(begun.id, { signal, timeoutMs }).catch((error) => {
    throw withCause(error)
  })
}

/** With the operators' text of a failed wake: the customers' names no cause. */
function withCause(error: unknown): unknown {
  if (!(error instanceof OperationFailedError) || !error.operationId) return error
  const { cause } = error.operation as AdminOperationJson
  return new CliError(
    `the test desktop did not wake: ${cause ?? error.message}`,
    `dormouse admin operation ${error.operationId}`,
    exitCodes.operationFailed,
    { operation_id: error.operationId },
  )
}

/** An organisation cannot be deleted, so one serves all trials. */
async function ownOrg(admin: AdminClient, signal: AbortSignal): Promise<string> {
  const { orgs } = await admin.listOrgs({ signal })
  return orgs.find(({ name }) => name === orgName)?.id ?? (await admin.createOrg({ name: orgName }, { signal })).id
}
