// Watches of folders in the guest of an awake desktop. The guest keeps what changed; any replica with a link to the host reads
// it. A cursor names the watch in the guest and how far it was read. If anything may be missing, there is an `overflow`.
import { hash } from 'node:crypto'
import { type ChangeJson, type ChangesJson, newId, refuseField, type WatchedFolder } from '@dormouse/contract'
import type { AwakeDesktops } from './awake.ts'
import type { Asking, GuestCaller } from './calls.ts'

export type Watched = WatchedFolder

interface Cursor {
  watchId: string
  offset: number
}

/** One request to a guest for changes lasts at most this long, so that a client that leaves costs it nothing for long. */
const stepMs = 10_000
/** Looking at all folders below, and what may have to be installed. */
const timeoutSecs = 140

const overflow: ChangeJson = { type: 'overflow', path: null, exact_path: true, folder: false, to: null }

export class Watches {
  readonly #awake: AwakeDesktops
  readonly #calls: GuestCaller

  constructor(awake: AwakeDesktops, calls: GuestCaller) {
    this.#awake = awake
    this.#calls = calls
  }

  /** Begins: returns the cursor from which on changes are seen. */
  async begin(asking: Asking, watched: Watched): Promise<string> {
    const id = newId()
    const { next } = await this.#calls.ask(asking, 'watch.start', { id, ...watched }, { timeoutSecs, at: watched })
    return cursorOf({ watchId: id, offset: next }, watched)
  }

  /**
   * The changes behind the cursor, waiting for one at most this long. A watch that has ended begins again, after `overflow`.
   */
  async read(asking: Asking, watched: Watched, cursor: string, waitMs: number): Promise<ChangesJson> {
    const until = performance.now() + waitMs
    for (let { watchId, offset } = parseCursor(cursor, watched); ; ) {
      const leftMs = Math.max(0, Math.min(stepMs, Math.round(until - performance.now())))
      const body = { id: watchId, offset, wait_ms: leftMs }
      const seen = await this.#calls.ask(asking, 'watch.read', body, { timeoutSecs })
      const changes = [...(seen.missed ? [overflow] : []), ...seen.changes]
      // What was kept of it comes first: the folder may be gone, and then no other one begins.
      if (seen.ended && seen.changes.length === 0)
        return { changes: [overflow], cursor: await this.begin(asking, watched) }
      offset = seen.next
      if (changes.length > 0 || performance.now() >= until)
        return { changes, cursor: cursorOf({ watchId, offset }, watched) }
    }
  }

  /** Refuses if the desktop, or the cursor, is not one to read from. */
  async check({ caller, desktopId }: Asking, watched: Watched, cursor: string): Promise<void> {
    parseCursor(cursor, watched)
    await this.#awake.require(caller, desktopId)
  }

  /** Ends it in the guest. A watch that nobody reads ends by itself. */
  async end(asking: Asking, watched: Watched, cursor: string): Promise<void> {
    await this.#calls.ask(asking, 'watch.remove', { id: parseCursor(cursor, watched).watchId }, { timeoutSecs })
  }
}

/** So that a cursor of another folder is noticed. */
const digestOf = ({ path, recursive }: Watched): string =>
  hash('sha256', `${recursive} ${path}`, 'base64url').slice(0, 8)

const cursorOf = ({ watchId, offset }: Cursor, watched: Watched): string => `${watchId}.${offset}.${digestOf(watched)}`

function parseCursor(cursor: string, watched: Watched): Cursor {
  const [watchId = '', offset, digest] = cursor.split('.')
  if (digest !== digestOf(watched)) refuseField('cursor', 'must be of the same `path` and `recursive`')
  return { watchId, offset: Number(offset) }
}
