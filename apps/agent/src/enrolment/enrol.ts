// Enrols this host at a control plane, once: sends a one-time token and a public key, and gets a host id.
import { setTimeout as sleep } from 'node:timers/promises'
import { type EnrolBody, type EnrolledJson, enrolledJson } from '@dormouse/contract'
import { type Log, readBody, request, StartError } from '@dormouse/process'
import { type Identity, isEnrolled, loadIdentity, publicKeyOf, saveIdentity } from './identity.ts'
import { requireSafe } from './transport.ts'

interface Enrolment {
  stateDir: string
  controlPlanes: readonly string[]
  token: string | undefined
  name: string
  allowHttp: boolean
  log: Log
  signal: AbortSignal
}

const firstPauseMs = 200
const longestPauseMs = 5_000
const attemptTimeoutMs = 10_000
const maxAnswerBytes = 64 * 1024

/** The host's identity. Enrols if there is none yet, and waits for a control plane that is unavailable. */
export async function enrolled(enrolment: Enrolment): Promise<Identity> {
  const stored = await loadIdentity(enrolment.stateDir)
  requireSafe(enrolment.controlPlanes, enrolment)
  if (isEnrolled(stored)) return stored
  if (!enrolment.token) {
    throw new StartError(
      'this host is not enrolled; create an invitation with `dormouse admin host invite` and set DORMOUSE_AGENT_ENROL_TOKEN',
    )
  }
  const body = { token: enrolment.token, name: enrolment.name, public_key: publicKeyOf(stored) }
  const { host_id: hostId, installation_id: installationId } = await ask(enrolment, body)
  const identity = { ...stored, hostId, installationId }
  await saveIdentity(enrolment.stateDir, identity)
  enrolment.log.info({ hostId, installationId }, 'enrolled')
  return identity
}

async function ask({ controlPlanes, log, signal }: Enrolment, body: EnrolBody): Promise<EnrolledJson> {
  for (let attempt = 0; ; attempt++) {
    const base = controlPlanes[attempt % controlPlanes.length]!
    try {
      return await post(base, body, signal)
    } catch (error) {
      if (error instanceof Declined) throw error
      signal.throwIfAborted()
      log.warn({ err: error, controlPlane: base }, 'enrolment failed; it is retried')
    }
    await sleep(Math.min(longestPauseMs, firstPauseMs * 2 ** Math.min(attempt, 10)), undefined, { signal })
  }
}

/** The control plane refused the enrolment: a retry would be refused too. */
class Declined extends StartError {
  override readonly name = 'Declined'
}

const remedy =
  'create a new invitation with `dormouse admin host invite` and set DORMOUSE_AGENT_ENROL_TOKEN, or correct DORMOUSE_AGENT_CONTROL_PLANES'

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
  // The token goes to no other server than the configured one.
  const to = status < 400 && headers.location ? `, which redirects to ${headers.location.slice(0, 200)}` : ''
  const why = `the control plane answered ${status} to the enrolment${to}: ${text.slice(0, 500)}`
  throw status < 500 && status !== 429 ? new Declined(`${why}; ${remedy}`) : new Error(why)
}
