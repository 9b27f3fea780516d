// What the tests of templates do on a bench before what they test, and expect after it.
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { type DesktopSpec, newId, type WakePath } from '@dormouse/contract'
import { expect } from 'vitest'
import { type Bench, fenceOf, spec } from './bench.ts'

/** Wakes a new desktop, and returns from what. */
export const path = async (bench: Bench, id = newId(), of: DesktopSpec = spec): Promise<WakePath | undefined> =>
  (await bench.awake(fenceOf(id, 1, 1), 'allow', 'make', of)).path

/** The image has been booted, and its template is made. */
export async function made(bench: Bench, of: DesktopSpec = spec): Promise<void> {
  expect(await path(bench, newId(), of)).toBe('boot')
  await bench.parts.templates.settled()
  expect(bench.parts.templates.facts).toHaveLength(1)
}

export const foldersOf = (bench: Bench): Promise<string[]> => readdir(join(bench.folder, 'templates')).catch(() => [])

export async function expectNoTemplate(bench: Bench): Promise<void> {
  expect(await foldersOf(bench)).toEqual([])
  expect(bench.driver.templates.running()).toEqual([])
  expect(bench.parts.templates.facts).toEqual([])
}
