// Enrols this host at a control plane, once: sends a one-time token and a public key, and gets a host id.
import { setTimeout as sleep } from 'node:timers/promises'
import { type EnrolBody, type EnrolledJson, enrolledJson } from '@dormouse/contract'
import { type Log, readBody, request, StartError } from '@dormouse/process'
import { z } from 'zod'
import { type Identity, loadCandidate, loadIdentity, publicKeyOf, saveIdentity } from './identity.ts'
import { requireSafe } from './transport.ts'

interface Enrolment {
  stateDir: string
  /** From the settings, which win over what the host was enrolled with. */
  controlPlanes: readonly string[] | undefined
  allowHttp: boolean | undefined
  token: string | undefined
  name: string
  log: Log
  signal: AbortSignal
}

/** An enrolled host, and how it reaches its control planes. */
export interface EnrolledHost extends Identity {
  controlPlanes: string[]
  allowHttp: boolean
}

const firstPauseMs = 200
const longestPauseMs = 5_000
const attemptTimeoutMs = 10_000
const maxAnswerBytes = 64 * 1024

/** The host's identity. Enrols if there is none yet, and waits for a control plane that is unavailable. */
export async function enrolled(enrolment: Enrolment): Promise<EnrolledHost> {
  const stored = await loadIdentity(enrolment.stateDir)
  const controlPlanes = [...(enrolment.controlPlanes ?? stored?.controlPlanes ?? [])]
  const allowHttp = enrolment.allowHttp ?? stored?.allowHttp ?? false
  requireSafe(controlPlanes, allowHttp)
  if (stored && controlPlanes.length > 0) return { ...stored, controlPlanes, allowHttp }
  if (stored) throw new StartError('no control plane is known; set DORMOUSE_AGENT_CONTROL_PLANES')
  const { token, stateDir, name, log, signal } = enrolment
  if (!token || controlPlanes.length === 0)
    throw new StartError(
      'this host is not enrolled; run `dormouse-agent enrol <url>` with an invitation from `dormouse admin host invite`, or set DORMOUSE_AGENT_CONTROL_PLANES and DORMOUSE_AGENT_ENROL_TOKEN',
    )
  const { key } = await loadCandidate(stateDir)
  const onFailure = (err: unknown, controlPlane: string) =>
    log.warn({ err, controlPlane }, 'enrolment failed; it is retried')
  const body = { token, name, public_key: publicKeyOf({ key }) }
  const ids = await requestEnrolment(controlPlanes, body, { signal, onFailure })
  const identity = { key, ...ids, controlPlanes, allowHttp }
  await saveIdentity(stateDir, identity)
  log.info(ids, 'enrolled')
  return identity
}

export interface Retrying {
  signal: AbortSignal
  /** Called with each failure that a retry may pass. What it throws ends the retries. */
  onFailure: (error: unknown, controlPlane: string) => void
}

/** Asks one control plane after another until one enrols the host or declines that. */
export async function requestEnrolment(
  controlPlanes: readonly string[],
  body: EnrolBody,
  { signal, onFailure }: Retrying,
): Promise<Pick<Identity, 'hostId' | 'installationId'>> {
  for (let attempt = 0; ; attempt++) {
    const base = controlPlanes[attempt % controlPlanes.length]!
    try {
      const { host_id: hostId, installation_id: installationId } = await post(base, body, signal)
      return { hostId, installationId }
    } catch (error) {
      if (error instanceof Declined) throw error
      signal.throwIfAborted()
      onFailure(error, base)
    }
    await sleep(Math.min(longestPauseMs, firstPauseMs * 2 ** Math.min(attempt, 10)), undefined, { signal })
  }
}

/** The control plane refused the enrolment: a retry would be refused too. */
export class Declined extends StartError {
  override readonly name = 'Declined'
}

async function post(base: string, body: EnrolBody, signal: AbortSignal): Promise<EnrolledJson> {
  const response = await request(new URL(`${base.replace(/\/+$/, '')}/agent/v1/enrol`), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal: AbortSignal.any([signal, AbortSignal.timeout(attemptTimeoutMs)]),
  })
  const { status, headers } = response
  const text = await readBody(response, maxAnswerBytes)
  if (status < 300) return enrolledJson.parse(JSON.parse(text))
  const problem = problemOf(text)
  const why = problem ?? `its answer is no control plane's: ${text.slice(0, 200)}`
  if (status >= 500 || status === 429) throw new Error(`${base} answered ${status}: ${why}`)
  if (problem !== undefined) throw new Declined(`${base} refused the enrolment: ${problem}`)
  // The token goes to no other server than the configured one.
  const to = status < 400 && headers.location ? `, which redirects to ${headers.location.slice(0, 200)}` : ''
  throw new Declined(`${base} answered ${status}${to}; correct the URL: a control plane has to answer there`)
}

const problemShape = z.object({ detail: z.string().max(1_000) })

/** The sentence of a control plane that refuses. */
function problemOf(text: string): string | undefined {
  try {
    return problemShape.parse(JSON.parse(text)).detail
  } catch {
    return undefined
  }
}
