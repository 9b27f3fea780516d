/** Decodes the events of a daemon into plain objects. */
import {
  agentReason,
  agentState,
  crashedDetail,
  definedDetail,
  jobOperation,
  lifecycleEvent,
  pmsuspendedDetail,
  resumedDetail,
  shutdownDetail,
  startedDetail,
  stoppedDetail,
  suspendedDetail,
  undefinedDetail,
} from './constants.ts'
import { type DomainRef, events, type TypedParam } from './protocol.ts'
import { nameOf, type Values, valuesOf } from './values.ts'
import type { XdrReader } from './xdr.ts'

type Names<G> = keyof G | 'unknown'

export interface EventDomain {
  name: string
  uuid: string
}

export type HostEvent =
  | { type: 'lifecycle'; domain: EventDomain; event: Names<typeof lifecycleEvent>; detail: string }
  | { type: 'reboot'; domain: EventDomain }
  | { type: 'agent'; domain: EventDomain; state: Names<typeof agentState>; reason: Names<typeof agentReason> }
  | {
      type: 'job-completed'
      domain: EventDomain
      operation: Names<typeof jobOperation>
      /** Undefined if the daemon does not report it. */
      success: boolean | undefined
      stats: Values
    }
  /** Events may have been missed: read the state again. */
  | { type: 'gap' }

const details: Record<keyof typeof lifecycleEvent, Record<string, number>> = {
  defined: definedDetail,
  undefined: undefinedDetail,
  started: startedDetail,
  suspended: suspendedDetail,
  resumed: resumedDetail,
  stopped: stoppedDetail,
  shutdown: shutdownDetail,
  pmsuspended: pmsuspendedDetail,
  crashed: crashedDetail,
}

/** Reads an event by its procedure number; undefined for one we did not subscribe to. */
export function readEvent(procedure: number, body: XdrReader): HostEvent | undefined {
  switch (procedure) {
    case events.domainEventCallbackLifecycle.number:
      return lifecycle(events.domainEventCallbackLifecycle.body.read(body))
    case events.domainEventCallbackReboot.number:
      return { type: 'reboot', domain: named(events.domainEventCallbackReboot.body.read(body).domain) }
    case events.domainEventCallbackAgentLifecycle.number:
      return agent(events.domainEventCallbackAgentLifecycle.body.read(body))
    case events.domainEventCallbackJobCompleted.number:
      return jobCompleted(events.domainEventCallbackJobCompleted.body.read(body))
    default:
      return undefined
  }
}

function named({ name, uuid }: DomainRef): EventDomain {
  return { name, uuid }
}

function lifecycle({ domain, event, detail }: { domain: DomainRef; event: number; detail: number }): HostEvent {
  const name = nameOf(lifecycleEvent, event)
  const group = name === 'unknown' ? {} : details[name]
  return { type: 'lifecycle', domain: named(domain), event: name, detail: nameOf(group, detail) }
}

function agent({ domain, state, reason }: { domain: DomainRef; state: number; reason: number }): HostEvent {
  const names = { state: nameOf(agentState, state), reason: nameOf(agentReason, reason) }
  return { type: 'agent', domain: named(domain), ...names }
}

function jobCompleted({ domain, params }: { domain: DomainRef; params: TypedParam[] }): HostEvent {
  const { operation, success, ...stats } = valuesOf(params)
  return {
    type: 'job-completed',
    domain: named(domain),
    operation: nameOf(jobOperation, Number(operation ?? 0)),
    success: success === undefined ? undefined : Boolean(success),
    stats,
  }
}
