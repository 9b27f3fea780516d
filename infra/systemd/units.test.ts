// Guarantee: no unit of ours is given up after some failed starts, and each allows the sockets that its program opens.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

/** Contains the units of every machine that we set up, guests included, and what we add to the units of others. */
const infra = join(import.meta.dirname, '..')
const isUnit = (path: string) => /\.(service|timer|socket)$|\.(service|timer|socket)\.d\/[^/]+\.conf$/.test(path)
const units = readdirSync(infra, { recursive: true, encoding: 'utf8' }).filter(isUnit)

/** The values of each directive, by section. */
function directivesOf(unit: string): (section: string, name: string) => string[] {
  const text = readFileSync(join(infra, unit), 'utf8')
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
const sandboxed = ['systemd/dormouse-control-plane.service', 'systemd/dormouse-agent.service']
test.each(sandboxed)('%s allows the sockets it needs', (unit) => {
  const [families] = directivesOf(unit)('Service', 'RestrictAddressFamilies')
  expect(families?.split(' ').sort()).toEqual(['AF_INET', 'AF_INET6', 'AF_NETLINK', 'AF_UNIX'])
})
