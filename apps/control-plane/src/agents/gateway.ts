// Accepts agents' links: authenticates each connection and keeps one link for each host. Messages go to the hooks that were
// passed in.
import type { IncomingMessage, Server } from 'node:http'
import type { Duplex } from 'node:stream'
import { linkSubprotocol, noSuchRoute } from '@dormouse/contract'
import { acceptUpgrades, DialRefused, Pace, UpgradeRefusal } from '@dormouse/link'
import type { Log } from '@dormouse/process'
import type { WebSocket } from 'ws'
import { Handshakes, type Proving, type Strangers } from './handshakes.ts'
import { type HostHooks, HostLink } from './host-link.ts'
import type { Links } from './links.ts'

export const linkPath = '/agent/v1/link'

interface Host {
  hostId: string
  name: string
}

/** Passed in by the wiring: the gateway itself knows neither hosts nor desktops. */
export interface GatewayHooks extends HostHooks {
  proofs: Proving<Host>
  strangers: Strangers & {
    /** Counts a request to upgrade; returns the refusal if its address is above a limit. */
    refusal(request: IncomingMessage): UpgradeRefusal | undefined
  }
  /** Returns a refused upgrade and closes the connection. */
  refuse(socket: Duplex, refusal: UpgradeRefusal): void
}

export interface GatewayOptions {
  server: Server
  links: Links
  hooks: GatewayHooks
  heartbeatMs: number
  log: Log
}

/** The share of this process's one thread. The messages of a healthy host take a hundredth. */
const shareOfOneHost = 0.25

/**
 * Accepts agents' links on the HTTP server. A link is used only after a valid hello. `answered` waits until all calls of
 * agents have been handled, whether or not the agent is still connected.
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
    // A host has at most one link beside the one in use.
    void arriving.get(hostId)?.leave()
    arriving.set(hostId, link)
    link.peer.on('close', () => arriving.get(hostId) === link && arriving.delete(hostId))
  }
  const upgrades = acceptUpgrades(server, {
    log,
    admit: (request) => hooks.strangers.refusal(request),
    answer: hooks.refuse,
    nowhere: new UpgradeRefusal(404, noSuchRoute().detail, {}, 'no_such_route'),
  })
  const handshakes = new Handshakes(hooks.proofs, hooks.strangers)
  upgrades.add({
    path: (pathname) => pathname === linkPath,
    // A proof is counted when it is checked, unless a recently authenticated host signed it.
    knows: offersProof,
    protocol: (offered) => offered.has(linkSubprotocol) && linkSubprotocol,
    authenticate: async (request) => (offersProof(request) ? undefined : unproven),
    onSocket: (socket, _host, request) => {
      const enter = (proven: Host) => {
        hooks.strangers.prove(request, proven.hostId)
        take(socket, proven)
      }
      handshakes
        .authenticate(socket, request)
        .then(enter)
        .catch((err) => log[err instanceof DialRefused ? 'debug' : 'error']({ err }, 'a link was not authenticated'))
    },
  })
  return { upgrades, answered: () => Promise.allSettled(asked) }
}

/** The same hooks; `asked` contains each call until it has been handled. */
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
    // The link is listed first, because `joined` requests the host's inventory.
    joined: (hostId, hello, peer) => {
      links.add(hostId, peer)
      hooks.joined(hostId, hello, peer)
    },
  }
}

const offersProof = ({ headers }: IncomingMessage): boolean =>
  (headers['sec-websocket-protocol'] ?? '').split(',').some((name) => name.trim() === linkSubprotocol)

const unproven = new UpgradeRefusal(401, `the host must prove its identity; offer the subprotocol ${linkSubprotocol}`)
