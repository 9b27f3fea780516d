// Which process is killed when: by turns at a named failpoint and at a random moment. The seed decides everything.

/** What a trial kills: there is one host then. */
type Victim = 'control-plane' | 'agent'

export interface Plan {
  trial: number
  victim: Victim
  /** `name=kill@n`; undefined if a moment decides. */
  failpoint: string | undefined
  /** After the requests were sent. */
  momentMs: number
  /** Whether the host is asked to end its warm copies meanwhile. */
  dropsCopies: boolean
}

const steps = { wake: ['place', 'disk', 'run', 'settle'], hibernate: ['save', 'settle'], destroy: ['remove', 'settle'] }
const firstWake = ['before-copy', 'after-copy', 'before-resume', 'after-resume', 'after-identity', 'after-done']
const template = ['after-boot', 'after-seal', 'after-save', 'before-rename', 'after-rename']
const failpoints: Record<Victim, string[]> = {
  'control-plane': [
    'operation.accepted',
    ...Object.entries(steps).flatMap(([kind, names]) =>
      names.flatMap((name) => [`${kind}.${name}.before`, `${kind}.${name}.after`]),
    ),
  ],
  agent: [
    'wake.before-mark',
    'wake.after-mark',
    'wake.after-resume',
    'hibernate.before-save',
    'hibernate.after-save',
    'hibernate.before-complete',
    'journal.before-write',
    'journal.before-sync',
    'destroy.after-kill',
    'disk.after-make',
    'command.before-reply',
    ...firstWake.map((at) => `first-wake.${at}`),
    ...template.map((at) => `template.${at}`),
    'furnish.before-note',
    'warm.before-drop',
    'warm.after-drop',
  ],
}

/** The plan of each trial: even ones kill the control plane, odd ones the agent. */
export function plansOf(trials: number, seed: number, spanMs: number): Plan[] {
  const random = randomOf(seed)
  return Array.from({ length: trials }, (_, trial) => {
    const victim: Victim = trial % 2 === 0 ? 'control-plane' : 'agent'
    const names = failpoints[victim]
    const name = names[Math.floor(random() * names.length)]!
    // One template is made in a trial.
    const hit = name.startsWith('template.') ? 1 : 1 + Math.floor(random() * 2)
    const momentMs = Math.round(random() * spanMs)
    const failpoint = trial % 4 < 2 ? `${name}=kill@${hit}` : undefined
    const dropsCopies = trial % 3 === 0 || failpoint?.startsWith('warm.') === true
    return { trial, victim, failpoint, momentMs, dropsCopies }
  })
}

/** Each failpoint whose name begins so, once. */
export function plansAt(prefix: string): Plan[] {
  const found = (['control-plane', 'agent'] as const).flatMap((victim) =>
    failpoints[victim].filter((name) => name.startsWith(prefix)).map((name) => ({ victim, name })),
  )
  return found.map(({ victim, name }, trial) => {
    return { trial, victim, failpoint: `${name}=kill@1`, momentMs: 0, dropsCopies: name.startsWith('warm.') }
  })
}

/** Mulberry32: small, and the same everywhere. */
function randomOf(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}
