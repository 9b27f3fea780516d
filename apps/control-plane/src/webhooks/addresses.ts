// Which URLs and addresses a webhook may use: only the public internet, unless the operator allows private addresses. Pure.
import { isIP } from 'node:net'
import { refuseField, webhookUrlMax } from '@dormouse/contract'
import ipaddr from 'ipaddr.js'

/** What RFC 4291 has assigned as global unicast; the rest of IPv6 is special, local or unassigned. */
const globalIpv6 = ipaddr.IPv6.parseCIDR('2000::/3')

/** Whether the address is of the public internet. Mapped addresses count as the IPv4 address in them. */
export function isPublic(address: string): boolean {
  // The library also reads short forms, which no resolver answers.
  if (isIP(address) === 0) return false
  const parsed = ipaddr.process(address)
  if (parsed.range() !== 'unicast') return false
  return parsed.kind() === 'ipv4' || (parsed as ipaddr.IPv6).match(globalIpv6)
}

/** The URL's host without the brackets of an IPv6 address. */
export const hostOf = ({ hostname }: URL): string => hostname.replace(/^\[(.*)\]$/, '$1')

/** The URL in its canonical form. Refuses one that could never be delivered to. Names are resolved at each delivery. */
export function checkUrl(text: string, allowPrivate: boolean): string {
  const refused = (why: string): never => refuseField('url', why)
  const url = URL.canParse(text) ? new URL(text) : refused('must be a URL, such as https://example.com/dormouse')
  if (url.protocol !== 'https:' && !(allowPrivate && url.protocol === 'http:')) refused('must begin with https://')
  if (url.username || url.password) refused('must not contain a user name or a password')
  if (url.hash) refused('must not contain a fragment')
  if (url.href.length > webhookUrlMax) refused(`must be at most ${webhookUrlMax} characters long`)
  const host = hostOf(url)
  if (!allowPrivate && (isIP(host) ? !isPublic(host) : /(^|\.)localhost\.?$/.test(host)))
    refused('must name a host on the public internet')
  return url.href
}
