// The door for agents: checks who dials, and lets each host in by one link at a time. What is said on it is passed up to
// those who were handed in.
import type { IncomingMessage, Server } from 'node:http'
import type { Duplex } from 'node:stream'
import { linkSubprotocols, notFound } from '@dormouse/contract'
import { acceptUpgrades, DialRefused, Pace, UpgradeRefusal } from '@dormouse/link'
import type { Log } from '@dormouse/process'
import type { WebSocket } from 'ws'
import { type HostHooks, HostLink } from './host-link.ts'
import type { Links } from './links.ts'
import { asUpgradeRefusal, Newcomers, type Proving, type Strangers } from './newcomers.ts'

export const linkPath = '/agent/v1/link'

interface Host {
  hostId: string
  name: string
}

/** What the roof hands in: the gateway itself knows neither hosts nor desktops. */
export interface GatewayHooks extends HostHooks {
  proofs: Proving<Host> & {
    /** Of an agent of the release before: answers the host whose token this is; throws a refusal otherwise. */
    byToken(token: string): Promise<Host>
    /** Whether a host made it that proved itself lately. Looks nothing up. */
    knowsToken(token: string): Promise<boolean>
  }
  strangers: Strangers & {
    /** Counts one who wants to upgrade; answers what he is told where that is one too many. */
    refusal(request: IncomingMessage): UpgradeRefusal | undefined
  }
  /** Tells one who may not come in why, and hangs up. */
  refuse(socket: Duplex, refusal: UpgradeRefusal): void
}

export interface GatewayOptions {
  server: Server
  links: Links
  hooks: GatewayHooks
  heartbeatMs: number
  log: Log
}

/** Of this process's one thread. What a host says in earnest takes a hundredth. */
const shareOfOneHost = 0.25

/**
 * Accepts agents' links on the HTTP server. A link counts only after a hello that was understood. `answered` waits for what
 * agents have asked, whether or not they still hear it.
 */
export function openGateway({ server, links, hooks, heartbeatMs, log }: GatewayOptions) {
  const asked = new Set<Promise<unknown>>()
  const heard = noting(asked, links, hooks)
  const arriving = new Map<string, HostLink>()
  const paces = new Map<string, Pace>()
  const take = (socket: WebSocket, { hostId, name }: Host) => {
    const pace = paces.get(hostId) ?? new Pace(shareOfOneHost)
    paces.set(hostId, pace)
    const hostLog = log.child({ host: hostId, hostName: name })
    const link = new HostLink(socket, { hostId, hooks: heard, pace, heartbeatMs, log: hostLog })
    // Beside the one that counts a host has one more at most.
    void arriving.get(hostId)?.leave()
    arriving.set(hostId, link)
    link.peer.on('close', () => arriving.get(hostId) === link && arriving.delete(hostId))
  }
  const upgrades = acceptUpgrades(server, {
    log,
    admit: (request) => hooks.strangers.refusal(request),
    answer: hooks.refuse,
    nowhere: notFound().detail,
  })
  const newcomers = new Newcomers(hooks.proofs, hooks.strangers)
  upgrades.add({
    path: (pathname) => pathname === linkPath,
    // Who offers a proof is counted when it is looked at, if it is not that of a host which came in lately.
    knows: (request) => offersProof(request) || hooks.proofs.knowsToken(tokenOf(request)),
    protocol: (offered) => offered.has(linkSubprotocols.proof) && linkSubprotocols.proof,
    // Whoever can answer a challenge is judged by nothing else.
    authenticate: async (request) => (offersProof(request) ? undefined : byToken(request, hooks)),
    onSocket: (socket, host, request) => {
      const enter = (proven: Host) => {
        hooks.strangers.prove(request, proven.hostId)
        take(socket, proven)
      }
      if (host) return enter(host)
      newcomers
        .meet(socket, request)
        .then(enter)
        .catch((err) => log[err instanceof DialRefused ? 'debug' : 'error']({ err }, 'a link was not proved'))
    },
  })
  return { upgrades, answered: () => Promise.allSettled(asked) }
}

/** The same hooks; each answer that is still to come stands in `asked`. */
function noting(asked: Set<Promise<unknown>>, links: Links, hooks: HostHooks): HostHooks {
  const noted = <T>(answer: Promise<T>): Promise<T> => {
    const over = () => asked.delete(answer)
    asked.add(answer)
    answer.then(over, over)
    return answer
  }
  return {
    hello: (...said) => noted(hooks.hello(...said)),
    heartbeat: (...said) => noted(hooks.heartbeat(...said)),
    report: (...said) => hooks.report(...said),
    // Once the link is listed its host may be asked for its inventory.
    joined: (hostId, hello, peer) => {
      links.add(hostId, peer)
      hooks.joined(hostId, hello, peer)
    },
  }
}

const offersProof = ({ headers }: IncomingMessage): boolean =>
  (headers['sec-websocket-protocol'] ?? '').split(',').some((name) => name.trim() === linkSubprotocols.proof)

const tokenOf = ({ headers }: IncomingMessage): string => /^Bearer (\S+)$/i.exec(headers.authorization ?? '')?.[1] ?? ''

async function byToken(request: IncomingMessage, { proofs }: GatewayHooks): Promise<Host | UpgradeRefusal> {
  const token = tokenOf(request)
  if (!token) return new UpgradeRefusal(401, 'a host proves who it is; offer the subprotocol of proofs')
  return proofs.byToken(token).catch(asUpgradeRefusal)
}
