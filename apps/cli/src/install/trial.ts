// `--try`: a desktop on the new host is made, woken, used and destroyed, in an organisation of its own.
import { type AdminClient, type Client, type HostJson, OperationFailedError } from '@dormouse/client'
import { CliError, exitCodes } from '../failures.ts'

const orgName = 'dormouse-install-trial'
/** The service chooses the host. Those that land elsewhere stay until one lands here, so that the next goes on. */
const tries = 5
const timeoutMs = 300_000

interface Trial {
  admin: AdminClient
  customerWith(apiKey: string): Client
  host: HostJson
  image?: string | undefined
  signal: AbortSignal
  show: ((text: string) => void) | undefined
}

/** What was tried, in one line. Rejects where the host cannot run a desktop. */
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
  const made: string[] = []
  try {
    for (let attempt = 0; attempt < tries; attempt++) {
      const desktop = await client.createDesktop({ tier: 'small', image_version: image }, { signal })
      made.push(desktop.id)
      trial.show?.('waking a test desktop')
      const began = performance.now()
      const { result } = await client.settle('wake', desktop.id, {}, { signal, timeoutMs }).catch(async (error) => {
        throw await withCause(admin, error)
      })
      if (result?.host_id !== host.id) continue
      const wokeMs = performance.now() - began
      const ran = await client.exec(desktop.id, { command: ['uname', '-r'] }, { signal })
      if (ran.exit_code !== 0)
        throw new CliError(`a command in the test desktop exited with ${ran.exit_code}`, 'check the image')
      return `a desktop with ${image} woke in ${(wokeMs / 1_000).toFixed(1)} s and ran a command`
    }
    throw new CliError(
      `none of ${tries} test desktops was placed on ${host.name}; other hosts have more free memory`,
      'the host is usable; it gets desktops as the others fill up',
      exitCodes.failed,
      { host_id: host.id },
    )
  } finally {
    // Also after Ctrl-C: nothing of it may stay.
    trial.show?.('destroying the test desktop')
    await Promise.allSettled(made.map((id) => client.settle('destroy', id, {}, { timeoutMs })))
    await admin.revokeKey(key.id).catch(() => undefined)
  }
}

/** The operators' text of a failed wake: the customers' names no cause. */
async function withCause(admin: AdminClient, error: unknown): Promise<unknown> {
  if (!(error instanceof OperationFailedError) || !error.operationId) return error
  const { cause } = await admin.getOperation(error.operationId)
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
