// The door for agents: checks who dials, says welcome, passes reports and heartbeats up to those who were handed in.
import type { IncomingMessage, Server } from 'node:http'
import type { Duplex } from 'node:stream'
import type { Heartbeat, HeartbeatAnswer, Hello } from '@dormouse/contract'
import {
  agentCalls,
  linkProtocol,
  linkSubprotocols,
  type Report,
  type ReportName,
  refuse,
  reports,
  theOne404,
  type Welcome,
} from '@dormouse/contract'
import { acceptUpgrades, DialRefused, Peer, UpgradeRefusal } from '@dormouse/link'
import type { Log } from '@dormouse/process'
import type { WebSocket } from 'ws'
import type { Links } from './links.ts'
import { asUpgradeRefusal, Newcomers, type Proving } from './newcomers.ts'

export const linkPath = '/agent/v1/link'

interface Host {
  hostId: string
  name: string
}

/** What the roof hands in: the gateway itself knows neither hosts nor desktops. */
export interface GatewayHooks {
  proofs: Proving<Host> & {
    /** Of an agent of the release before: answers the host whose token this is; throws a refusal otherwise. */
    byToken(token: string): Promise<Host>
  }
  /** The host's first word; what it answers is the welcome. */
  hello(hostId: string, hello: Hello): Promise<Welcome>
  /** After the link is listed: the inventory may now be answered. */
  joined(hostId: string, hello: Hello): void
  heartbeat(hostId: string, heartbeat: Heartbeat): Promise<HeartbeatAnswer>
  /** Tells one who may not come in why, and hangs up. */
  refuse(socket: Duplex, refusal: UpgradeRefusal): void
  report<N extends ReportName>(hostId: string, name: N, report: Report<N>): void
}

/**
 * Accepts agents' links on the HTTP server. A link counts only after a hello that was understood. `answered` waits for what
 * agents have asked, whether or not they still hear it.
 */
export function openGateway(server: Server, links: Links, hooks: GatewayHooks, log: Log) {
  const asked = new Set<Promise<unknown>>()
  const noting = <T>(answer: Promise<T>): Promise<T> => {
    const over = () => asked.delete(answer)
    asked.add(answer)
    answer.then(over, over)
    return answer
  }
  const upgrades = acceptUpgrades(server, { log, answer: hooks.refuse, nowhere: theOne404().detail })
  const newcomers = new Newcomers(hooks.proofs)
  upgrades.add({
    path: (pathname) => pathname === linkPath,
    protocol: (offered) => offered.has(linkSubprotocols.proof) && linkSubprotocols.proof,
    // Whoever can answer a challenge is judged by nothing else.
    authenticate: async (request) => (offersProof(request) ? undefined : byToken(request, hooks)),
    onSocket: (socket, host, request) => {
      if (host) return take(socket, host)
      newcomers
        .meet(socket, request)
        .then((proven) => take(socket, proven))
        .catch((err) => log[err instanceof DialRefused ? 'debug' : 'error']({ err }, 'a link was not proved'))
    },
  })
  const take = (socket: WebSocket, host: Host) => {
    const hostLog = log.child({ host: host.hostId, hostName: host.name })
    const peer: Peer = new Peer(socket, {
      log: hostLog,
      // A host that died in silence is unreachable within 15 s: 5 s to the ping, 5 s for its answer.
      pingIntervalMs: 5_000,
      pingTimeoutMs: 5_000,
      handlers: {
        'host.hello': async (payload) => {
          const parsed = agentCalls['host.hello'].payload.parse(payload)
          if (parsed.protocol !== linkProtocol) {
            refuse('conflict', `this control plane speaks link protocol ${linkProtocol}; upgrade the agent`)
          }
          const welcome = await noting(hooks.hello(host.hostId, parsed))
          links.add(host.hostId, peer)
          hostLog.info({ desktops: parsed.inventory.length }, 'host linked')
          hooks.joined(host.hostId, parsed)
          return welcome
        },
        'host.heartbeat': async (payload) =>
          noting(hooks.heartbeat(host.hostId, agentCalls['host.heartbeat'].payload.parse(payload))),
      },
    })
    peer.on('event', (name, payload) => {
      const schema = reports[name as ReportName]
      const parsed = schema?.safeParse(payload)
      if (parsed?.success) hooks.report(host.hostId, name as ReportName, parsed.data)
      else hostLog.warn({ report: name }, 'a report was not understood')
    })
    peer.on('close', (reason) => hostLog.info({ reason }, 'host link closed'))
  }
  return { upgrades, answered: () => Promise.allSettled(asked) }
}

const offersProof = ({ headers }: IncomingMessage): boolean =>
  (headers['sec-websocket-protocol'] ?? '').split(',').some((name) => name.trim() === linkSubprotocols.proof)

async function byToken({ headers }: IncomingMessage, { proofs }: GatewayHooks): Promise<Host | UpgradeRefusal> {
  const token = /^Bearer (\S+)$/i.exec(headers.authorization ?? '')?.[1]
  if (!token) return new UpgradeRefusal(401, 'a host proves who it is; offer the subprotocol of proofs')
  return proofs.byToken(token).catch(asUpgradeRefusal)
}
