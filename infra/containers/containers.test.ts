// Guarantee: what the container files name exists, and they agree with the unit and the image. No container engine runs here, so
// compose.yaml itself is not tried.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const root = join(import.meta.dirname, '../..')
const textOf = (path: string) => readFileSync(join(root, path), 'utf8')
const captures = (text: string, pattern: RegExp) => [...text.matchAll(pattern)].map(([, found]) => found!)

const compose = textOf('infra/containers/compose.yaml')
const image = textOf('scripts/release/image.ts')
const unit = textOf('infra/systemd/dormouse-control-plane.service')

test('the image has the options of the systemd unit, and the program that compose.yaml checks', () => {
  const [options] = captures(unit, /^Environment=(NODE_OPTIONS=.*)$/gm)
  expect(image).toContain(options)
  const [program] = captures(image, /^const program = '(.*)'$/gm)
  expect(compose).toContain(`${program}/node`)
})

test('the composition mounts files that exist, and trusts the address of its proxy alone', () => {
  const mounted = captures(compose, /- (\.\S*?):\//g)
  expect(mounted).toHaveLength(1)
  expect(mounted.filter((path) => !existsSync(join(root, 'infra/containers', path)))).toEqual([])
  expect(captures(compose, /DORMOUSE_TRUSTED_PROXIES: (\S+)/g)).toEqual(captures(compose, /ipv4_address: (\S+)/g))
})
