// Guarantee: a step of an upload whose answer was lost is made again, but for the one that a repeat would report wrongly.
import { newId, type UploadCommand } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { CommandLost } from '../driver/guest-transport.ts'
import type { GuestCalls } from './calls.ts'
import { uploadStep } from './uploads.ts'

test.each([
  ['prepare', true],
  ['measure', true],
  ['drop', true],
  ['place', false],
] as const)('%s: %s', async (step, repeats) => {
  const seen: unknown[] = []
  const call = async (_call: unknown, how: unknown) => {
    seen.push(how)
    throw new CommandLost('the connection was lost')
  }
  const target = { desktopId: newId(), generation: 1, uploadId: newId(), path: '/srv/x' }
  const command: UploadCommand = { ...target, step, size: 5, mode: null, owner: null }
  await expect(uploadStep({ call } as unknown as GuestCalls, command)).rejects.toMatchObject({
    code: 'guest_unavailable',
  })
  expect(seen).toEqual([{ repeats }])
})
