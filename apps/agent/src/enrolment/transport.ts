// Which control planes an agent may connect to: over TLS, or on this machine. Over plain HTTP, another machine on the path
// could take over the link.
import { BlockList, isIP } from 'node:net'
import { type Log, StartError } from '@dormouse/process'

const loopback = new BlockList()
loopback.addSubnet('127.0.0.0', 8)
loopback.addAddress('::1', 'ipv6')

/** Whether others on the path can read and change what is sent to this address. */
export function isExposed(url: string): boolean {
  const { protocol, hostname } = new URL(url)
  if (protocol === 'https:' || hostname === 'localhost') return false
  const address = hostname.replace(/^\[|\]$/g, '')
  const family = isIP(address)
  return family === 0 || !loopback.check(address, family === 6 ? 'ipv6' : 'ipv4')
}

const remedy =
  'use https://, or allow it with --allow-http or DORMOUSE_AGENT_ALLOW_HTTP=true if only trusted machines are on the path'

/** Throws if one of these addresses may not be used. */
export function requireSafe(urls: readonly string[], allowHttp: boolean): void {
  const exposed = urls.find(isExposed)
  if (exposed && !allowHttp)
    throw new StartError(`${exposed} is plain HTTP to another machine, and the link could be taken over; ${remedy}`)
}

/** Whether an address may be dialled. If it may not, that is logged once. */
export function dialRule({ allowHttp, log }: { allowHttp: boolean; log: Log }): (url: string) => boolean {
  const logged = new Set<string>()
  return (url) => {
    if (allowHttp || !isExposed(url)) return true
    if (!logged.has(url)) log.warn({ url }, `not dialled: plain HTTP; ${remedy}`)
    logged.add(url)
    return false
  }
}

/** The address of a link to the control plane at this base URL. */
export const linkUrl = (base: string): string => `${base.replace(/\/+$/, '').replace(/^http/, 'ws')}/agent/v1/link`
