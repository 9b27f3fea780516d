// kill -9 of each of the three processes at each failpoint of a move between two hosts, awake and asleep: the move settles, the
// desktop is whole on the host that the database names, with its memory, and the other host has nothing of it.
import type { OperationJson } from '@dormouse/contract'
import { waitFor } from '../wait-for.ts'
import { summary } from './judge.ts'
import type { Stage, Victim } from './stage.ts'
import { prepare, usable } from './trial.ts'

type State = 'awake' | 'hibernated'
type Party = 'control-plane' | 'old' | 'new'

const steps = ['place', 'begin', 'send', 'arrive', 'decide', 'settle', 'release']
/** In the order in which a move comes to them. */
export const moveFailpoints: readonly (readonly [Party, string])[] = [
  ...steps.flatMap((name) => ['before', 'after'].map((when) => ['control-plane', `move.${name}.${when}`] as const)),
  ['old', 'move.begin.after-note'],
  ['new', 'move.prepare.after-note'],
  ['old', 'move.send.after-dial'],
  ['old', 'move.send.after-send'],
  ['new', 'move.arrive.before-note'],
  ['new', 'move.settle.before-resume'],
  ['new', 'move.settle.after-resume'],
  ['old', 'move.release.before-remove'],
  ['old', 'move.after-remove'],
]

export interface MoveOutcome {
  victim: Party
  failpoint: string
  from: State
  moved: boolean
  faults: string[]
}

/** The testbed must have a second host. */
export async function killInMoves(
  stage: Stage,
  failpoints: readonly (readonly [Party, string])[],
  tell: (outcome: MoveOutcome) => void = () => undefined,
): Promise<string[]> {
  await stage.addHost('other-agent')
  const faults: string[] = []
  for (const [victim, failpoint] of failpoints) {
    for (const from of ['awake', 'hibernated'] as const) {
      // A guest that sleeps is not resumed.
      if (from === 'hibernated' && failpoint.endsWith('-resume')) continue
      const outcome = await killInMove(stage, { victim, failpoint, from })
      tell(outcome)
      faults.push(...outcome.faults.map((fault) => `${victim} at ${failpoint}, ${from}: ${fault}`))
    }
  }
  return faults
}

async function killInMove(stage: Stage, given: Omit<MoveOutcome, 'moved' | 'faults'>): Promise<MoveOutcome> {
  const { victim: party, failpoint, from } = given
  const { patienceMs } = stage.testbed
  const { id } = await prepare(stage, from)
  const [old, next] = await stage.agentsOf(id)
  const victim: Victim = party === 'control-plane' ? party : party === 'old' ? old : next
  await stage.arm(victim, `${failpoint}=kill`)
  const begun = await stage.admin('POST', `desktops/${id}/move`, {})
  if (begun.status !== 202) throw new Error(`move: ${begun.status} ${begun.text}`)
  await waitFor(`${victim} to die at ${failpoint}`, () => !stage.alive(victim), patienceMs)
  await stage.kill(victim)
  await stage.start(victim)
  const move = await waitFor('the move to settle', () => settled(stage, (begun.json as OperationJson).id), patienceMs)
  await waitFor('nothing to be deferred', async () => (await stage.deferred()) === 0, patienceMs)

  const faults: string[] = []
  const { state, host_id } = await stage.see(id)
  if (state !== from) faults.push(`it is ${state}`)
  const [own, other] = await stage.agentsOf(id)
  if (move.state === 'succeeded' && own !== next) faults.push('the move succeeded, and it is on its old host')
  const expected = from === 'awake' ? 'running' : 'saved'
  const seen = summary((await stage.inventory(own)).find(({ desktopId }) => desktopId === id))
  if (seen !== expected) faults.push(`its host ${host_id} has: ${seen}`)
  const left = (await stage.inventory(other)).find(({ desktopId }) => desktopId === id)
  if (left) faults.push(`the other host has: ${summary(left)}`)
  faults.push(...(await usable(stage, [{ desktopId: id, kind: 'wake', from, operationId: undefined }])))
  await stage.ask(id, 'destroy')
  return { ...given, moved: own === next, faults }
}

async function settled(stage: Stage, id: string): Promise<OperationJson | undefined> {
  const operation = await stage.operation(id)
  return operation?.settled_at ? operation : undefined
}
