// Where an awake desktop runs, and why a call to its guest has failed, with the path that its file system refused.
import { type DesktopState, factsOf, Refusal, refusals, refuse } from '@dormouse/contract'
import { requireAwake } from '../desktops/require-awake.ts'
import type { Desktops } from '../desktops/service.ts'
import type { Customer } from '../principals/service.ts'

export class AwakeDesktops {
  readonly #desktops: Desktops

  constructor(desktops: Desktops) {
    this.#desktops = desktops
  }

  /** The desktop's host and generation; refuses if it is not the caller's, or not awake. */
  async require(caller: Customer, desktopId: string) {
    return { desktopId, ...requireAwake(await this.#desktops.get(caller, desktopId)) }
  }

  /**
   * Throws why a command failed, with the path that the guest's file system refused. A guest may be silent because its desktop has
   * left `awake` meanwhile: the sentence says so. A desktop that is hibernated for a move soon runs again.
   */
  async whyNot(desktopId: string, error: unknown, at?: RefusedAt): Promise<never> {
    if (!(error instanceof Refusal)) throw error
    if (error.code === 'not_awake' || error.code === 'guest_unavailable') {
      if (await this.#desktops.isMoving(desktopId))
        refuse('guest_unavailable', 'the desktop is moving between hosts; retry')
      const state = await this.#desktops.stateOf(desktopId)
      if (error.code === 'guest_unavailable' && state !== 'awake') refuse('guest_unavailable', leftAwake(state))
    }
    throw at ? withPath(error, at) : error
  }
}

const leftAwake = (state: DesktopState | undefined): string =>
  state === 'hibernating' || state === 'hibernated'
    ? `the desktop is ${state}; wake it, then repeat the request`
    : 'the desktop is no longer awake; check its state, then repeat the request'

/** Where the guest refused: the path, and where it was to go. */
export interface RefusedAt {
  path: string
  to?: string | undefined
}

const shownMaxLength = 300

export function withPath(refusal: Refusal, at: RefusedAt): Refusal {
  const { code, detail, extra } = refusal
  if (code === 'invalid_request') return asField(refusal, at)
  return factsOf(code).from === 'guest_files' ? new Refusal(code, `${named(code, at)}: ${detail}`, extra) : refusal
}

/** The first word of a host's sentence is the field that is wrong. */
function asField({ code, detail, extra }: Refusal, { to }: RefusedAt): Refusal {
  const [, field, why] = /^(path|to|owner|body) (.+)$/.exec(extra.cause ?? '') ?? []
  if (field === undefined || why === undefined || (field === 'to' && to === undefined))
    return new Refusal(code, detail, extra)
  return new Refusal(code, refusals.invalid_request.detail({ field, why }), { ...extra, field })
}

function named(code: Refusal['code'], { path, to }: RefusedAt): string {
  if (to === undefined || code === 'file_not_found') return shown(path)
  return code === 'file_exists' ? shown(to) : `${shown(path)} to ${shown(to)}`
}

/** On one line, and as JSON if it has control characters. */
function shown(path: string): string {
  const text = /\p{Cc}/u.test(path) ? JSON.stringify(path) : path
  return text.length > shownMaxLength ? `${text.slice(0, shownMaxLength).toWellFormed()}…` : text
}
