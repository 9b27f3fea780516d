// `dormouse-agent enrol`: makes this machine a host of a control plane, and keeps what the agent needs to reach it.

import { DialRefused } from '@dormouse/link'
import { createLog, StartError } from '@dormouse/process'
import type { AgentConfig } from './config.ts'
import { Declined, requestEnrolment } from './enrolment/enrol.ts'
import {
  type Identity,
  loadCandidate,
  loadIdentity,
  publicKeyOf,
  saveCandidate,
  saveIdentity,
} from './enrolment/identity.ts'
import { takeFolder } from './enrolment/possession.ts'
import { requireSafe } from './enrolment/transport.ts'
import { tryLink } from './enrolment/try-link.ts'
import { type Unreachable, whyUnreachable } from './enrolment/unreachable.ts'

export interface EnrolOptions {
  config: AgentConfig
  controlPlanes: string[]
  name: string
  allowHttp: boolean
  /** Called only if this host is not enrolled yet. */
  readInvitation: () => Promise<string>
  /** Shows what it waits for. */
  say: (line: string) => void
  /** How long it waits for a control plane. */
  waitMs?: number
}

const usualWaitMs = 60_000

/** Whether this call has enrolled the host, and as what. Throws StartError with a sentence that says what to do. */
export async function enrolHost(options: EnrolOptions): Promise<{ isNew: boolean; identity: Identity }> {
  const { config, controlPlanes, allowHttp } = options
  requireSafe(controlPlanes, allowHttp)
  requireOneAnswer(config, controlPlanes)
  const { stateDir } = config
  const stored = await loadIdentity(stateDir)
  if (stored) {
    await requireSame(stored, controlPlanes)
    if (isReachedBy(stored, options)) return { isNew: false, identity: stored }
    return whileStopped(config, async () => {
      // The agent may have replaced the key meanwhile.
      const identity = { ...((await loadIdentity(stateDir)) ?? stored), controlPlanes, allowHttp }
      await saveIdentity(stateDir, identity)
      return { isNew: false, identity }
    })
  }
  const token = invitationIn(await options.readInvitation())
  return whileStopped(config, async () => ({ isNew: true, identity: await enrolNew(options, token) }))
}

const isReachedBy = (stored: Identity, { controlPlanes, allowHttp }: EnrolOptions): boolean =>
  stored.controlPlanes?.join() === controlPlanes.join() && (stored.allowHttp ?? false) === allowHttp

/** No agent uses the folder meanwhile. */
async function whileStopped<T>({ stateDir, adopt }: AgentConfig, work: () => Promise<T>): Promise<T> {
  const folder = await takeFolder({ stateDir, adopt, log: createLog({ name: 'agent', level: 'silent' }) })
  try {
    return await work()
  } finally {
    folder.release()
  }
}

async function enrolNew(options: EnrolOptions, token: string): Promise<Identity> {
  const { controlPlanes, allowHttp, name, config } = options
  const { key, tried } = await loadCandidate(config.stateDir)
  // The one before may have been accepted without an answer; a second one would make a second host of this machine.
  const isEarlier = tried && tried.token !== token && tried.controlPlanes.join() === controlPlanes.join()
  const body = { name, public_key: publicKeyOf({ key }) }
  const earlier = isEarlier && (await requestWithin(options, { ...body, token: tried.token }).catch(unlessDeclined))
  if (!earlier) await saveCandidate(config.stateDir, { key, tried: { token, controlPlanes } })
  const ids = earlier || (await requestWithin(options, { ...body, token }))
  const identity = { key, ...ids, controlPlanes, allowHttp }
  await saveIdentity(config.stateDir, identity)
  return identity
}

function unlessDeclined(error: unknown): undefined {
  if (!(error instanceof Declined)) throw error
}

/** Waits for a control plane that is unavailable, but not for one that somebody has to correct first. */
async function requestWithin(options: EnrolOptions, body: Parameters<typeof requestEnrolment>[1]) {
  const { controlPlanes, say, waitMs = usualWaitMs } = options
  const signal = AbortSignal.timeout(waitMs)
  const failures = new Map<string, Unreachable>()
  const sentence = () =>
    [...failures].map(([url, { what, remedy }]) => `${url} was not reached: ${what}; ${remedy}`).join('\n')
  const onFailure = (error: unknown, url: string) => {
    const why = whyUnreachable(error)
    if (failures.get(url)?.what !== why.what) say(`waiting for ${url}: ${why.what}`)
    failures.set(url, why)
    if (failures.size === controlPlanes.length && [...failures.values()].every(({ lasts }) => lasts))
      throw new StartError(sentence())
  }
  try {
    return await requestEnrolment(controlPlanes, body, { signal, onFailure })
  } catch (error) {
    if (!signal.aborted || error instanceof StartError) throw error
    throw new StartError(
      sentence() || `${controlPlanes.join(' and ')} did not answer; check that a control plane runs there`,
    )
  }
}

/** Settings win over what is kept here, so they must not say something else. */
function requireOneAnswer({ controlPlanes }: AgentConfig, given: readonly string[]): void {
  if (controlPlanes && controlPlanes.join() !== given.join())
    throw new StartError(
      `DORMOUSE_AGENT_CONTROL_PLANES is ${controlPlanes.join()}, and settings win; remove it from /etc/dormouse/agent.env, or enrol there`,
    )
}

/** An enrolled host stays what it is: it proves its identity to one of the control planes. */
async function requireSame(identity: Identity, controlPlanes: readonly string[]): Promise<void> {
  const already = `this machine is enrolled already, as host ${identity.hostId}`
  let unreached = ''
  for (const url of controlPlanes) {
    const error = await tryLink(url, identity).catch((reason: unknown) => reason)
    if (error === undefined) return
    if (error instanceof DialRefused && (error.status === 401 || error.status === 403))
      throw new StartError(
        `${already}, which ${url} refuses: ${error.detail}; to make it a host there, drain and remove it where it is, purge the package (\`apt-get purge dormouse-agent\`), and install it again`,
      )
    const { what, remedy } = whyUnreachable(error)
    unreached ||= `${url} was not reached: ${what}; ${remedy}`
  }
  // It was enrolled with these: that suffices.
  if (identity.controlPlanes?.join() !== controlPlanes.join()) throw new StartError(`${already}, and ${unreached}`)
}

/** The invitation has one line. */
function invitationIn(text: string): string {
  const token = text.trim()
  if (/^[\w-]{1,200}$/.test(token)) return token
  const what = token === '' ? 'there is no invitation on standard input' : 'what is on standard input is no invitation'
  throw new StartError(`${what}; make one with \`dormouse admin host invite --json | jq -r .token\`, and pass it on`)
}
