// Guarantee: an older QEMU, which opens a template's memory for writing, does so only if the operator has chosen that; and if
// QEMU cannot map it, desktops copy it.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Refusal } from '@dormouse/contract'
import { createLog } from '@dormouse/process'
import { expect, test } from 'vitest'
import { type Share, SharedMemory } from './shared-memory.ts'

const installation = { ready: async () => ({ capabilities: { owner: undefined } }) }
const log = createLog({ name: 'shared-memory', level: 'silent' })
const shared = (share: Share) => new SharedMemory({ installation, log, share, movesDir: '/none' } as never)

test.each<[Share, string, string]>([
  ['auto', '7.2.22', 'copied'],
  ['auto', '8.1.5', 'copied'],
  ['auto', '8.2.0', 'mapped-read-only'],
  ['auto', '10.0.2', 'mapped-read-only'],
  ['auto', '', 'copied'],
  ['on', '7.2.22', 'mapped-writable'],
  ['on', '8.2.0', 'mapped-read-only'],
  ['off', '10.0.2', 'copied'],
])('%s with QEMU %s: %s', (share, qemu, form) => {
  expect(shared(share).form(qemu)).toBe(form)
})

test.each<[Refusal, string]>([
  [new Refusal('hypervisor_failed', 'QEMU may not open the file'), 'copied'],
  [new Refusal('host_unreachable'), 'mapped-read-only'],
  [new Refusal('host_disk_full'), 'mapped-read-only'],
])('after two failures in a row, each %s, it is %s', async (refusal, form) => {
  const memory = shared('auto')
  const spec = { vcpus: 1, memoryMiB: 1, diskGiB: 1, imageVersion: 'mini' }
  const boot = async (create: () => Promise<void>) => {
    const folder = mkdtempSync(join(tmpdir(), 'dormouse-shared-memory-'))
    const xml = "<domain><memory unit='MiB'>1</memory></domain>"
    await memory.boot(folder, xml, spec, create).finally(() => rmSync(folder, { recursive: true }))
  }
  const fails = () => expect(boot(() => Promise.reject(refusal))).rejects.toBe(refusal)
  await fails()
  await boot(async () => undefined)
  await fails()
  expect(memory.form('8.2.0')).toBe('mapped-read-only')
  await fails()
  expect(memory.form('8.2.0')).toBe(form)
})
