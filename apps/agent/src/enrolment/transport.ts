// Which control planes an agent speaks to: by TLS, or on this machine. Whoever listens on the way could take the link over.
import { BlockList, isIP } from 'node:net'
import type { Log } from '@dormouse/process'

const loopback = new BlockList()
loopback.addSubnet('127.0.0.0', 8)
loopback.addAddress('::1', 'ipv6')

/** Whether others on the way can read and change what is said at this address. */
export function isExposed(url: string): boolean {
  const { protocol, hostname } = new URL(url)
  if (protocol === 'https:' || hostname === 'localhost') return false
  const address = hostname.replace(/^\[|\]$/g, '')
  const family = isIP(address)
  return family === 0 || !loopback.check(address, family === 6 ? 'ipv6' : 'ipv4')
}

export interface Transport {
  /** The operator says that plain HTTP is safe there. */
  allowHttp: boolean
  /** The host enrolled under this rule. One that enrolled before goes on for one release. */
  strict: boolean
  log: Log
}

const remedy = 'use https://, or set DORMOUSE_AGENT_ALLOW_HTTP=true where only trusted machines are on the way'

/** Refuses to begin where one of these addresses may not be spoken to. */
export function requireSafe(urls: readonly string[], { allowHttp, strict }: Transport): void {
  const exposed = urls.find(isExposed)
  if (exposed && strict && !allowHttp)
    throw new Error(`${exposed} is plain HTTP to another machine, where the link could be taken over: ${remedy}`)
}

/** Whether an address may be dialled. What may not, or will not in the next release, is logged once. */
export function dialRule({ allowHttp, strict, log }: Transport): (url: string) => boolean {
  const told = new Set<string>()
  return (url) => {
    if (allowHttp || !isExposed(url)) return true
    if (!told.has(url)) log.warn({ url }, strict ? `not dialled: plain HTTP; ${remedy}` : `plain HTTP; ${untilNext}`)
    told.add(url)
    return !strict
  }
}

const untilNext = `the next release refuses it: ${remedy}`
