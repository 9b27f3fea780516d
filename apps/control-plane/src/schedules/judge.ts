// Judges what a desktop's plan asks for now: its end, the event before that, or a time of its schedule. Pure; the clock is the
// database's.
import { type DesktopState, type RefusalCode, type ScheduleAction, scheduleActions } from '@dormouse/contract'
import { destroySoonMs, latestMs, nextOf, type Plan } from '../desktops/plans.ts'

/** `missed`: by more than an hour. `overtaken`: a later time of the schedule has come since. Or a refusal's code. */
export type SkipReason = 'missed' | 'overtaken' | RefusalCode

/** A time of the schedule that has come. */
export interface Due {
  action: ScheduleAction
  plannedAt: Date
  /** The action's times up to this are done with it. */
  until: Date
}

export type Verdict =
  | { do: 'nothing' }
  | { do: 'look_again'; inMs: number }
  | { do: 'destroy' }
  | { do: 'note_end' }
  | ({ do: 'act' } & Due)
  /** What the schedule asks for is so already. */
  | ({ do: 'pass' } & Due)
  | ({ do: 'skip'; reason: SkipReason } & Due)

/** While a desktop is between two states, the next look is soon. */
const betweenMs = 2_000
/** A destroy is under way. It succeeds, or is asked for again. */
const destroyingMs = 60_000

export function judge(plan: Plan): Verdict {
  const { now, state, destroyAt } = plan
  if (state === 'destroyed') return { do: 'nothing' }
  if (destroyAt && destroyAt <= now)
    return state === 'destroying' ? { do: 'look_again', inMs: destroyingMs } : { do: 'destroy' }
  if (state === 'destroying') return { do: 'look_again', inMs: destroyingMs }
  return bySchedule(plan) ?? (isEndToNote(plan) ? { do: 'note_end' } : { do: 'nothing' })
}

/** When something may be to do next, if nothing is now; null for never. */
export function lookAt(plan: Plan): Date | null {
  const { state, destroyAt, destroySoonNoted } = plan
  if (state === 'destroyed') return null
  const noteAt = destroyAt && !destroySoonNoted ? new Date(destroyAt.getTime() - destroySoonMs) : null
  const times = [destroyAt, noteAt, ...scheduleActions.map((action) => nextOf(plan, action))]
  const known = times.flatMap((time) => (time ? [time.getTime()] : []))
  return known.length > 0 ? new Date(Math.min(...known)) : null
}

function bySchedule(plan: Plan): Verdict | undefined {
  const { now, state } = plan
  const due = scheduleActions.flatMap((action) => {
    const plannedAt = nextOf(plan, action)
    return plannedAt && plannedAt <= now ? [{ action, plannedAt, until: now }] : []
  })
  const [first, second] = due.toSorted((one, other) => one.plannedAt.getTime() - other.plannedAt.getTime())
  if (!first) return undefined
  const earliest = new Date(now.getTime() - latestMs)
  // One is skipped for all that were missed; the first one of the last hour stays due.
  if (first.plannedAt < earliest) return { do: 'skip', ...first, until: earliest, reason: 'missed' }
  if (second) {
    // At the same time, the wake counts.
    const isTie = second.plannedAt.getTime() === first.plannedAt.getTime()
    return { do: 'skip', ...(isTie ? second : first), until: second.plannedAt, reason: 'overtaken' }
  }
  const fits = byState[first.action][state]
  if (fits === 'later') return { do: 'look_again', inMs: betweenMs }
  if (fits === 'never') return { do: 'skip', ...first, reason: 'wrong_state' }
  return { do: fits, ...first }
}

const byState: Record<ScheduleAction, Record<DesktopState, 'act' | 'pass' | 'later' | 'never'>> = {
  wake: {
    created: 'act',
    waking: 'pass',
    awake: 'pass',
    hibernating: 'later',
    hibernated: 'act',
    stopped: 'act',
    destroying: 'never',
    destroyed: 'never',
    failed: 'never',
  },
  hibernate: {
    created: 'pass',
    waking: 'later',
    awake: 'act',
    hibernating: 'pass',
    hibernated: 'pass',
    stopped: 'pass',
    destroying: 'never',
    destroyed: 'never',
    failed: 'pass',
  },
}

const isEndToNote = ({ now, destroyAt, destroySoonNoted }: Plan): boolean =>
  destroyAt !== null && !destroySoonNoted && destroyAt.getTime() - destroySoonMs <= now.getTime()
