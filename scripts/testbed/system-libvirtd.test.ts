// Guarantee: the system's libvirtd is not used if it cannot work, and the reason is given.
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { closedToOthers, findSystemLibvirtd } from './system-libvirtd.ts'

const folder = mkdtempSync(join(tmpdir(), 'dormouse-system-'))
chmodSync(folder, 0o755)
afterAll(() => rmSync(folder, { recursive: true }))

test('names the folder that others cannot enter, and ignores folders that do not exist yet', () => {
  mkdirSync(join(folder, 'closed/inner'), { recursive: true })
  expect(closedToOthers(join(folder, 'closed/inner/to/come'))).toBeUndefined()
  chmodSync(join(folder, 'closed'), 0o750)
  expect(closedToOthers(join(folder, 'closed/inner'))).toBe(join(folder, 'closed'))
})

test('gives the reason: no socket, or no daemon behind it', async () => {
  expect(await findSystemLibvirtd(folder, [join(folder, 'none')])).toEqual({
    why: expect.stringContaining('no libvirtd'),
  })
  const dead = join(folder, 'dead')
  writeFileSync(dead, '')
  expect(await findSystemLibvirtd(folder, [dead])).toEqual({ why: expect.stringContaining('does not respond') })
})
