// Guarantee: execs that a release before started are found, with a program of this release; a guest without execs gets none.
import { newId, Refusal } from '@dormouse/contract'
import { expect, test } from 'vitest'
import type { GuestTransport } from '../driver/guest-transport.ts'
import { GuestExecs } from './execs.ts'

const execId = newId()
const running = `exec ${execId} running 0 0 - 1 0 4 0 0 0 0 0 0 0 c2xlZXA=\nall\n`

/** A guest whose place has execs of a release before, or not. */
function guestWith({ execs }: { execs: boolean }) {
  const seen = { installed: false }
  const transport = {
    exec: async ({ command }: { command: string | string[] }) => {
      const done = (stdout: string, exitCode = 0) => ({ exitCode, stdout, stdoutTruncated: false })
      if (typeof command === 'string') return done('', command.startsWith('[') && !execs ? 1 : 0)
      if (!seen.installed) throw new Refusal('command_not_run', 'no such program')
      return done(command[2] === 'check' ? 'ready\n' : running)
    },
    createFile: async () => ({
      write: async () => undefined,
      commit: async () => {
        seen.installed = true
      },
    }),
  }
  return { guest: transport as unknown as GuestTransport, seen }
}

test.each([{ execs: true }, { execs: false }])('with %j', async ({ execs }) => {
  const { guest, seen } = guestWith({ execs })
  const found = await new GuestExecs().running(guest, { desktopId: newId(), generation: 1 })
  expect(found.map((exec) => [exec.execId, exec.keepAwake])).toEqual(execs ? [[execId, true]] : [])
  expect(seen.installed).toBe(execs)
})
