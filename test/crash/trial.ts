// One trial: eight desktops, eight requests at once, a kill, a restart, and the judgement.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { DesktopJson, DesktopState, OperationJson, RequestKind } from '@dormouse/contract'
import type { ApiAnswer } from '../integration/parts/api.ts'
import { waitFor } from '../wait-for.ts'
import { followLog } from './followed-log.ts'
import { type Asked, type Facts, type Judgement, judge } from './judge.ts'
import type { Plan } from './plan.ts'
import type { Stage } from './stage.ts'

export interface Outcome extends Judgement {
  plan: Plan
  /** Whether the failpoint was reached; true if a moment decided. */
  reached: boolean
  tookMs: number
}

/** What a test of the harness does to the testbed between crash and judgement; then the judge must complain in these words. */
export interface Sabotage {
  act(stage: Stage, asked: Asked[]): Promise<void>
  found: RegExp
}

const mix: [from: 'created' | 'awake' | 'hibernated', kind: RequestKind][] = [
  ['created', 'wake'],
  ['created', 'wake'],
  ['hibernated', 'wake'],
  ['hibernated', 'wake'],
  ['awake', 'hibernate'],
  ['awake', 'hibernate'],
  ['awake', 'destroy'],
  ['hibernated', 'destroy'],
]
const failpointMs = 20_000

export async function runTrial(stage: Stage, plan: Plan, sabotage?: Sabotage): Promise<Outcome> {
  const began = performance.now()
  const log = await followLog(stage)
  const desktops = await Promise.all(mix.map(([from]) => prepare(stage, from)))
  if (plan.failpoint) await stage.arm(plan.victim, plan.failpoint)
  if (plan.failpoint?.startsWith('first-wake.')) await stage.templateMade()
  const keys = desktops.map(() => randomUUID())
  if (plan.dropsCopies) stage.dropWarmCopies()
  const requests = mix.map(([, kind], i) => request(stage, desktops[i]!.id, kind, keys[i]!))
  const { answers, reached } = await crash(stage, plan, requests)
  // Accepted is what was answered, and what was written down before it could be answered.
  const written = await stage.writtenDown(keys)
  const asked = mix.map(([from, kind], i) => ({
    desktopId: desktops[i]!.id,
    kind,
    from,
    operationId: (answers[i]?.json as OperationJson | undefined)?.id ?? written.get(desktops[i]!.id),
  }))
  await sabotage?.act(stage, asked)
  await stage.start(plan.victim)
  const replayed = await Promise.all(mix.map(([, kind], i) => request(stage, desktops[i]!.id, kind, keys[i]!)))
  const ids = new Map(asked.map(({ desktopId, operationId }, i) => [desktopId, operationId ?? replayed[i]?.json.id]))
  const judgement = await settledFacts(stage, asked, replayed, ids, sabotage)
  const faults = [...judgement.faults, ...(await usable(stage, asked)), ...(await log.faults())]
  await clear(stage, asked)
  return { ...judgement, faults, plan, reached, tookMs: Math.round(performance.now() - began) }
}

/** A desktop in that state, with its own id as a word in memory and on disk. */
export async function prepare(stage: Stage, from: DesktopState): Promise<DesktopJson> {
  const made = await stage.api('POST', '/v1/desktops', { body: { tier: 'small', image_version: stage.testbed.image } })
  if (made.status !== 201) throw new Error(`create: ${made.status} ${made.text}`)
  const { id } = made.json as DesktopJson
  if (from !== 'created') {
    await stage.ask(id, 'wake')
    if ((await stage.print(id, `echo ${id} > /run/word; echo ${id} > /root/word; sync; cat /run/word`)) !== id)
      throw new Error(`${id} does not remember`)
  }
  if (from === 'hibernated') await stage.ask(id, 'hibernate')
  return stage.see(id)
}

/** The answer if there was one before the crash: 202, or 200 if it had settled by then. */
async function request(stage: Stage, id: string, kind: RequestKind, key: string): Promise<ApiAnswer | undefined> {
  try {
    const answer = await stage.api('POST', `/v1/desktops/${id}/${kind}`, { headers: { 'idempotency-key': key } })
    return answer.status === 202 || answer.status === 200 ? answer : undefined
  } catch (error) {
    // The control plane died before it answered: whether it accepted is not known, and need not be.
    if (error instanceof Error && 'code' in error) return undefined
    throw error
  }
}

async function crash(stage: Stage, { victim, failpoint, momentMs }: Plan, requests: Promise<ApiAnswer | undefined>[]) {
  const answering = Promise.all(requests)
  if (failpoint === undefined) await sleep(momentMs)
  const reached =
    failpoint === undefined ||
    (await waitFor('the failpoint', () => !stage.alive(victim), failpointMs).then(
      () => true,
      () => false,
    ))
  await stage.kill(victim)
  return { answers: await answering, reached }
}

/** Waits until all have settled and the host agrees, or disagrees as it was made to; otherwise the judgement says on what. */
async function settledFacts(
  stage: Stage,
  asked: Asked[],
  replayed: (ApiAnswer | undefined)[],
  ids: Map<string, string | undefined>,
  sabotage: Sabotage | undefined,
): Promise<Judgement> {
  const operations = new Map<string, OperationJson | undefined>()
  const settled = async () => {
    for (const [desktopId, id] of ids)
      operations.set(desktopId, id === undefined ? undefined : await stage.operation(id))
    return [...operations.values()].every((operation) => !operation || operation.settled_at !== null)
  }
  await waitFor('everything to settle', settled, stage.testbed.patienceMs).catch(() => undefined)
  let judgement: Judgement | undefined
  const agreed = async () => {
    await settled()
    const facts: Facts = {
      asked,
      operations,
      replayed: new Map(asked.map(({ desktopId }, i) => [desktopId, replayed[i]?.json as OperationJson | undefined])),
      desktops: new Map(
        await Promise.all(asked.map(async ({ desktopId }) => [desktopId, await stage.see(desktopId)] as const)),
      ),
      held: await stage.held(),
      inventory: await stage.inventory(),
      leftovers: await stage.leftovers(),
    }
    judgement = judge(facts)
    const { faults } = judgement
    return sabotage ? faults.some((fault) => sabotage.found.test(fault)) : faults.length === 0
  }
  await waitFor('host and database to agree', agreed, stage.testbed.patienceMs).catch((error: Error) => {
    if (!judgement) throw error
  })
  return judgement!
}

/** The next request is legal and works, and nothing that was remembered is forgotten. */
export async function usable(stage: Stage, asked: Asked[]): Promise<string[]> {
  return (await Promise.all(asked.map((one) => unusable(stage, one)))).filter((fault) => fault !== undefined)
}

async function unusable(stage: Stage, { desktopId: id, from }: Asked): Promise<string | undefined> {
  const { state } = await stage.see(id)
  if (state === 'destroyed') return undefined
  if (state !== 'awake') {
    const woken = await stage.api('POST', `/v1/desktops/${id}/wake?wait=true`)
    if (woken.status !== 200) return `desktop ${id} is ${state} and cannot be woken: ${woken.json?.detail}`
  }
  if (from === 'created') return undefined
  const words = await stage.print(id, 'cat /run/word /root/word')
  return words === `${id}\n${id}` ? undefined : `desktop ${id}, which was ${from}, remembers ${JSON.stringify(words)}`
}

/** Leaves nothing for the next trial; a stray of this one has been told. */
async function clear(stage: Stage, asked: Asked[]): Promise<void> {
  const destroy = async ({ desktopId: id }: Asked) => {
    if ((await stage.see(id)).state !== 'destroyed') await stage.api('POST', `/v1/desktops/${id}/destroy?wait=true`)
  }
  await Promise.all(asked.map(destroy))
}
