// Every command of the contract has its handler here; one that is missing does not compile.
import { type CommandName, commands, refuse } from '@dormouse/contract'
import type { DialBack } from '../control.ts'
import { ensureAsleep } from './ensure-asleep.ts'
import { ensureAwake } from './ensure-awake.ts'
import { ensureDestroyed } from './ensure-destroyed.ts'
import { ensureDisk } from './ensure-disk.ts'
import { ensureHibernated } from './ensure-hibernated.ts'
import { exec } from './exec.ts'
import { inventory } from './inventory.ts'
import { observe } from './observe.ts'
import { openStream } from './open-stream.ts'
import { readFile } from './read-file.ts'
import { rejoin } from './rejoin.ts'
import type { CommandHandler, Room } from './room.ts'
import { takePicture } from './take-picture.ts'
import { tidy } from './tidy.ts'
import { writeFile } from './write-file.ts'

const table: { [N in CommandName]: CommandHandler<N> } = {
  'desktop.ensureDisk': ensureDisk,
  'desktop.ensureAwake': ensureAwake,
  'desktop.ensureHibernated': ensureHibernated,
  'desktop.ensureAsleep': ensureAsleep,
  'desktop.ensureDestroyed': ensureDestroyed,
  'desktop.tidy': tidy,
  'desktop.observe': observe,
  'host.inventory': inventory,
  'host.rejoin': rejoin,
  'guest.exec': exec,
  'guest.writeFile': writeFile,
  'guest.readFile': readFile,
  'stream.open': openStream,
  'stream.picture': takePicture,
}

type Handle = (room: Room, payload: unknown, signal: AbortSignal, dialBack: DialBack) => Promise<unknown>
type LinkHandler = (payload: unknown, ctx: { signal: AbortSignal }) => Promise<unknown>

/** The handlers as one link wants them: parsed at the door, trusted inside. */
export function linkHandlers(room: Room, dialBack: DialBack): Record<CommandName, LinkHandler> {
  const names = Object.keys(table) as CommandName[]
  return Object.fromEntries(names.map((name) => [name, handler(room, name, dialBack)])) as Record<
    CommandName,
    LinkHandler
  >
}

function handler<N extends CommandName>(room: Room, name: N, dialBack: DialBack): LinkHandler {
  return async (payload, { signal }) => {
    const parsed = commands[name].payload.safeParse(payload)
    if (!parsed.success) return refuse('invalid_request', `${name}: ${parsed.error.message}`)
    using _counted = room.calls.enter(name, desktopOf(parsed.data))
    const run = table[name] as Handle
    const result = await run(room, parsed.data, signal, dialBack)
    await room.ground.failpoints.hit('command.before-reply')
    return result
  }
}

const desktopOf = (payload: object): string | undefined =>
  'desktopId' in payload && typeof payload.desktopId === 'string' ? payload.desktopId : undefined
