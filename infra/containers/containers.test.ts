// Guarantee: what the container files name exists. No container engine runs here, so nothing else of them is tested.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const root = join(import.meta.dirname, '../..')
const textOf = (path: string) => readFileSync(join(root, path), 'utf8')
const captures = (text: string, pattern: RegExp) => [...text.matchAll(pattern)].map(([, found]) => found!)

const containerfile = textOf('infra/containers/control-plane.Containerfile')
const compose = textOf('infra/containers/compose.yaml')
const haproxy = textOf('infra/haproxy/haproxy.cfg')

test('every file that the image is made of exists', () => {
  const sources = captures(containerfile, /^COPY (?!--from)(.+) \S+$/gm).flatMap((names) => names.split(' '))
  expect(sources.length).toBeGreaterThan(5)
  expect(sources.filter((path) => !existsSync(join(root, path)))).toEqual([])
})

test('the image starts the bundle with the options of the systemd unit', () => {
  const unit = textOf('infra/systemd/dormouse-control-plane.service')
  const [options] = captures(unit, /^Environment=NODE_OPTIONS=(.*)$/gm)
  expect(containerfile).toContain(`ENV NODE_OPTIONS=${options}`)
})

test('the composition mounts files that exist, on the addresses that the proxy knows', () => {
  expect(captures(compose, /dockerfile: (\S+)/g).filter((path) => !existsSync(join(root, path)))).toEqual([])
  const mounted = captures(compose, /- (\.\S*?):\//g).filter((path) => !path.endsWith('dormouse.pem'))
  expect(mounted).toHaveLength(1)
  expect(mounted.filter((path) => !existsSync(join(root, 'infra/containers', path)))).toEqual([])
  const addresses = captures(compose, /ipv4_address: (\S+)/g).sort()
  const known = new Set(captures(haproxy, /(10\.0\.0\.\d+)/g))
  expect(addresses).toEqual([...known].sort())
})
