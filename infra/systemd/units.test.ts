// Guarantee: no unit of ours is given up after some failed starts, and each allows the sockets that its program opens.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const units = readdirSync(import.meta.dirname).filter((name) => name.endsWith('.service'))

/** The values of each directive, by section. */
function directivesOf(unit: string): (section: string, name: string) => string[] {
  const text = readFileSync(join(import.meta.dirname, unit), 'utf8')
  const sections = new Map(text.split(/^(?=\[)/m).map((part) => [/^\[(\w+)\]/.exec(part)?.[1], part]))
  return (section, name) =>
    [...(sections.get(section) ?? '').matchAll(new RegExp(`^${name}=(.*)$`, 'gm'))].map(([, value]) => value!)
}

test.each(units)('%s is started again as often as it takes, if it is started again at all', (unit) => {
  const directives = directivesOf(unit)
  const restarts = directives('Service', 'Restart').length > 0
  expect(directives('Unit', 'StartLimitIntervalSec')).toEqual(restarts ? ['0'] : [])
})

// Node lists the machine's addresses by AF_NETLINK, and nft sets the firewall by it.
test.each(['dormouse-control-plane.service', 'dormouse-agent.service'])('%s allows the sockets it needs', (unit) => {
  const [families] = directivesOf(unit)('Service', 'RestrictAddressFamilies')
  expect(families?.split(' ').sort()).toEqual(['AF_INET', 'AF_INET6', 'AF_NETLINK', 'AF_UNIX'])
})
