// Watches the commands that this replica sends to hosts: how long each took, and what files they moved. Knows no desktop.
import { type CommandResult, type GuestStreamName, Refusal } from '@dormouse/contract'
import { type Tracing, traced } from '@dormouse/process'
import { Counter, Histogram, type Registry } from 'prom-client'
import type { CommandObserver } from '../agents/links.ts'

const directions: Record<GuestStreamName, 'to_guest' | 'from_guest'> = {
  'file.write': 'to_guest',
  'upload.append': 'to_guest',
  'archive.write': 'to_guest',
  'file.read': 'from_guest',
  'archive.read': 'from_guest',
}

/** Measures each command under its name and outcome: `succeeded`, the code of a refusal, or `failed`. */
export function observeCommands(registry: Registry, tracing: Tracing | undefined): CommandObserver {
  const registers = [registry]
  const durations = new Histogram({
    name: 'dormouse_link_command_duration_seconds',
    help: 'From the sending of a command to a host until its answer',
    labelNames: ['command', 'outcome'],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 180],
    registers,
  })
  const transfers = new Counter({
    name: 'dormouse_file_transfers_total',
    help: 'Files moved to and from guests',
    labelNames: ['direction'],
    registers,
  })
  const bytes = new Counter({
    name: 'dormouse_file_transfer_bytes_total',
    help: 'Bytes of the files moved to and from guests',
    labelNames: ['direction'],
    registers,
  })
  return async (command, work) => {
    const startedAt = performance.now()
    let outcome = 'succeeded'
    try {
      const result = await traced(tracing, { name: command, kind: 'client' }, work)
      if (Object.hasOwn(directions, command)) {
        const direction = directions[command as GuestStreamName]
        transfers.inc({ direction })
        bytes.inc({ direction }, (result as CommandResult<'guest.stream'>).size)
      }
      return result
    } catch (error) {
      outcome = error instanceof Refusal ? error.code : 'failed'
      throw error
    } finally {
      durations.observe({ command, outcome }, (performance.now() - startedAt) / 1_000)
    }
  }
}
