// The whole stack as a test object: a database of its own, control planes and simulated hosts in this process, joined by
// real HTTP and real links, two organisations to ask for things. Disposing of it fails if something was left behind.
import type { AgentConfig } from '@dormouse/agent/config.ts'
import { type Client, createClient } from '@dormouse/client'
import type { DesktopJson, DesktopState, Observation, OperationJson, RequestKind } from '@dormouse/contract'
import type { Config } from '@dormouse/control-plane/config.ts'
import { type ArmedFailpoints, createLog, type Log } from '@dormouse/process'
import { inject } from 'vitest'
import { answersFrom } from './answers.ts'
import { contradictionsInLog } from './event-log.ts'
import { type ApiAnswer, type ApiWish, send } from './integration/parts/api.ts'
import { Chronicle } from './integration/parts/chronicle.ts'
import { Database } from './integration/parts/database.ts'
import { Host, inShort } from './integration/parts/host.ts'
import { Replica } from './integration/parts/replica.ts'
import { Secrets } from './secrets.ts'
import { waitFor } from './wait-for.ts'

export interface StackOptions {
  hosts?: number
  replicas?: number
  controlPlane?: Partial<Config>
  agent?: Partial<AgentConfig>
  failpoints?: ArmedFailpoints
  /** A Postgres of the test's own, holding the template; by default the run's. */
  databaseServer?: string
}

export interface Org {
  id: string
  key: string
}

export class Stack {
  readonly chronicle = new Chronicle()
  /** What must be in no log line and in no answer. */
  readonly secrets = new Secrets()
  readonly replicas: Replica[] = []
  readonly hosts: Host[] = []
  readonly database: Database
  readonly #log: Log
  readonly #options: StackOptions
  #org: Org | undefined
  #otherOrg: Promise<Org> | undefined
  #operatorKey: string | undefined

  private constructor(database: Database, options: StackOptions) {
    this.database = database
    this.#options = options
    this.#log = createLog({ name: 'integration', level: 'trace', destination: this.chronicle })
    this.secrets.learn('the database’s password', new URL(database.url).password)
  }

  /** A stack whose first replica leads and whose hosts are linked. */
  static async start(options: StackOptions = {}): Promise<Stack> {
    const database = await Database.create(options.databaseServer ?? inject('databaseUrl'))
    const stack = new Stack(database, options)
    try {
      for (let i = 0; i < (options.replicas ?? 1); i++) await stack.addReplica(i === 0 ? options.failpoints : undefined)
      stack.#org = await stack.newOrg('first')
      for (let i = 0; i < (options.hosts ?? 1); i++) await stack.addHost()
      return stack
    } catch (error) {
      await stack.#tearDown()
      throw error
    }
  }

  get replica(): Replica {
    return this.replicas[0]!
  }

  get failpoints(): ArmedFailpoints {
    return this.replica.failpoints
  }

  get host(): Host {
    return this.hosts[0]!
  }

  get url(): string {
    return this.replica.url
  }

  get org(): Org {
    return this.#org!
  }

  /** A second organisation, made when it is first asked for. */
  get otherOrg(): Promise<Org> {
    this.#otherOrg ??= this.newOrg('second')
    return this.#otherOrg
  }

  /** The SDK, as the first organisation. It does not retry: a test wants to see each answer. */
  get client(): Client {
    return createClient({ baseUrl: this.url, apiKey: this.org.key, retries: 0 })
  }

  async newOrg(name: string): Promise<Org> {
    const { principals } = this.replica.parts
    const { id } = await principals.createOrg(name)
    const key = (await principals.createKey(id, 'test')).api_key
    this.secrets.learn(`the key of ${name}`, key)
    return { id, key }
  }

  /** Another control plane on the same database. The first one leads when this returns. */
  async addReplica(failpoints?: ArmedFailpoints, wish: Partial<Config> = {}): Promise<Replica> {
    const replica = new Replica(this.database.url, this.#log, { ...this.#options.controlPlane, ...wish }, failpoints)
    await replica.start()
    this.replicas.push(replica)
    if (this.replicas.length === 1) await replica.leading()
    return replica
  }

  async addHost(agent: Partial<AgentConfig> = {}): Promise<Host> {
    const name = `sim-${this.hosts.length + 1}`
    const { token: invite } = await this.replica.parts.hosts.invite(name)
    this.secrets.learn(`the invitation of ${name}`, invite)
    const wish = { ...this.#options.agent, ...agent }
    const host = await Host.start({
      name,
      controlPlane: this.url,
      invite,
      log: this.#log,
      chronicle: this.chronicle,
      agent: wish,
    })
    this.hosts.push(host)
    await this.linked(host)
    return host
  }

  /** Waits until every replica that is up holds a link to the host. */
  async linked(host: Host): Promise<void> {
    await waitFor(`the links of ${host.name}`, () =>
      this.replicas.every((replica) => !replica.up || replica.parts.links.has(host.id)),
    )
  }

  async unlinked(host: Host): Promise<void> {
    await waitFor(`the loss of the links of ${host.name}`, () =>
      this.replicas.every((replica) => !replica.up || !replica.parts.links.has(host.id)),
    )
  }

  async killAgent(at = 0): Promise<void> {
    await this.hosts[at]!.kill()
    await this.unlinked(this.hosts[at]!)
  }

  async restartAgent(at = 0): Promise<void> {
    await this.hosts[at]!.restart()
    await this.linked(this.hosts[at]!)
  }

  /** Stops the control plane in order and starts another at the same address, with other settings if `wish` has any. */
  async restartControlPlane(wish: Partial<Config> = {}): Promise<void> {
    await this.replica.stop()
    await this.replica.start(wish)
    await this.replica.leading()
    for (const host of this.hosts) if (host.up) await this.linked(host)
  }

  /** Takes the leader's session away and waits until it leads again, in a later epoch. */
  async endTerm(): Promise<void> {
    const { leadership } = this.replica.parts
    const before = leadership.term?.epoch ?? 0
    await this.database.endSessions('dormouse-leadership')
    await waitFor('a later term', () => (leadership.term?.epoch ?? 0) > before)
  }

  /**
   * Raw HTTP to the first replica, as the first organisation unless `key` says otherwise. Every answer is held to the
   * OpenAPI document.
   */
  async api(method: string, path: string, wish: ApiWish = {}): Promise<ApiAnswer> {
    return send(this.url + path, method, { key: this.org.key, ...wish })
  }

  /** The metrics of the first replica, as text. */
  async metrics(): Promise<string> {
    this.#operatorKey ??= await this.replica.parts.principals.createOperatorKey('metrics')
    this.secrets.learn('the operator’s key', this.#operatorKey)
    return (await this.api('GET', '/metrics', { key: this.#operatorKey })).text
  }

  /** Channels that agents have dialled back to the first replica and that are open now. */
  get channels(): number {
    return this.replica.parts.channels.open
  }

  /** Waits until nothing is under way: no operation that is live, none that is carried, no command at work on a host. */
  async settle(): Promise<void> {
    await waitFor('everything to settle', () => this.#isSettled())
    for (const host of this.hosts) await host.settled()
  }

  async #isSettled(): Promise<boolean> {
    const live = await this.database.rows(`select 1 from operations where state in ('pending', 'running')`)
    return live.length === 0 && this.#carried() === 0
  }

  #carried(): number {
    return this.replicas.reduce((sum, replica) => sum + (replica.up ? replica.parts.engine.runningCount : 0), 0)
  }

  /** The step does its work, and then fails: the hardest case to take back. */
  failingAt(kind: OperationJson['kind'], step: string): void {
    this.failpoints.set(`${kind}.${step}.after`, 'throw')
  }

  /** Each step of that kind runs twice: its first run is forgotten by a change of leader. */
  repeating(kind: OperationJson['kind'], steps: readonly string[]): void {
    for (const step of steps) {
      const name = `${kind}.${step}.after`
      this.failpoints.set(name, async () => {
        this.failpoints.set(name, undefined)
        await this.endTerm()
      })
    }
  }

  /** A desktop in one of the states that last. */
  async desktop(state: DesktopState = 'created', body: object = {}): Promise<DesktopJson> {
    const made = await this.api('POST', '/v1/desktops', { body: { tier: 'small', ...body } })
    if (made.status !== 201) throw new Error(`create: ${made.status} ${made.text}`)
    const { id } = made.json as DesktopJson
    if (state !== 'created') await this.ask(id, state === 'destroyed' ? 'destroy' : 'wake')
    if (state === 'hibernated') await this.ask(id, 'hibernate')
    if (state === 'stopped') await this.#stop(id)
    return this.see(id)
  }

  async #stop(id: string): Promise<void> {
    const host = await this.hostOf(id)
    host.driver.die(id)
    await this.becomes(id, 'stopped')
  }

  /** Wakes and hibernations that are accepted during the work have this long, also after progress; others the usual time. */
  async withDeadline<T>(deadlineMs: number, work: () => Promise<T>): Promise<T> {
    await this.restartControlPlane({ wakeDeadlineMs: deadlineMs, hibernateDeadlineMs: deadlineMs })
    const done = await work()
    await this.restartControlPlane()
    return done
  }

  /** Asks for a transition and waits for its success. */
  async ask(id: string, kind: RequestKind, body: object = {}): Promise<OperationJson> {
    const answer = await this.api('POST', `/v1/desktops/${id}/${kind}?wait=true`, { body })
    if (answer.status !== 200) throw new Error(`${kind}: ${answer.status} ${answer.text}`)
    const answered = answer.json as OperationJson
    // A wait has its cap, which a slow machine reaches.
    const settled = answered.state === 'succeeded' ? answered : await this.settled(answered.id)
    if (settled.state !== 'succeeded') throw new Error(`${kind}: ${JSON.stringify(settled)}`)
    return settled
  }

  /** Asks for a transition and answers the operation that was accepted, at once. */
  async begin(id: string, kind: RequestKind, body: object = {}): Promise<OperationJson> {
    const answer = await this.api('POST', `/v1/desktops/${id}/${kind}`, { body })
    if (answer.status !== 202) throw new Error(`${kind}: ${answer.status} ${answer.text}`)
    return answer.json as OperationJson
  }

  async see(id: string): Promise<DesktopJson> {
    return (await this.api('GET', `/v1/desktops/${id}`)).json as DesktopJson
  }

  async operation(id: string): Promise<OperationJson> {
    return (await this.api('GET', `/v1/operations/${id}`)).json as OperationJson
  }

  /** Waits until an operation has settled, however. */
  async settled(id: string): Promise<OperationJson> {
    return waitFor(`operation ${id} to settle`, async () => {
      const seen = await this.operation(id)
      return (seen.state === 'succeeded' || seen.state === 'failed') && seen
    })
  }

  /** Why the desktop's operations failed, as operators read it; the newest first. */
  async causes(desktopId: string): Promise<(string | null)[]> {
    const rows = await this.database.rows<{ cause: string | null }>(
      'select cause from operations where desktop_id = $1 order by id desc',
      [desktopId],
    )
    return rows.map(({ cause }) => cause)
  }

  async becomes(id: string, state: DesktopState): Promise<DesktopJson> {
    let seen = ''
    return waitFor(`desktop ${id} to be ${state}`, async () => {
      const desktop = await this.see(id)
      seen = desktop.state
      return seen === state && desktop
    }).catch((error: Error) => {
      throw new Error(`${error.message}; it is ${seen}`)
    })
  }

  async hostOf(id: string): Promise<Host> {
    const { host_id } = await this.see(id)
    const host = this.hosts.find((candidate) => candidate.id === host_id)
    if (!host) throw new Error(`desktop ${id} has no host`)
    return host
  }

  /** All that a host says it has. */
  async inventory(host = this.host): Promise<Observation[]> {
    return (await this.replica.parts.links.command(host.id, 'host.inventory', { known: [] })).items
  }

  async observed(id: string, host = this.host): Promise<Observation | undefined> {
    return (await this.inventory(host)).find((item) => item.desktopId === id)
  }

  /** Waits until its host has that of it, in short: an image that a wake has used goes a moment after the wake. */
  async shows(id: string, short: string, host = this.host): Promise<void> {
    let seen = ''
    const look = async () => {
      seen = inShort(await this.observed(id, host))
      return seen === short
    }
    await waitFor(`${host.name} to show ${short}`, look).catch((error: Error) => {
      throw new Error(`${error.message}; it shows ${seen}`)
    })
  }

  /** MiB of memory that the desktop holds of its host; undefined if it holds nothing at all. */
  async held(id: string): Promise<number | undefined> {
    const rows = await this.database.rows<{ memory: number }>(
      'select memory_mib as memory from reservations where desktop_id = $1',
      [id],
    )
    return rows[0]?.memory
  }

  async exec(id: string, command: string | string[], more: object = {}): Promise<ApiAnswer> {
    return this.api('POST', `/v1/desktops/${id}/exec`, { body: { command, ...more } })
  }

  /** Leaves a word in the guest's memory and another on its disk. */
  async remember(id: string, word: string): Promise<void> {
    const { status, text } = await this.exec(id, `echo ${word} > /run/word; echo ${word} > /srv/word`)
    if (status !== 200) throw new Error(`exec: ${status} ${text}`)
  }

  /** The words that are still there. */
  async recall(id: string): Promise<{ memory: string; disk: string }> {
    const memory = (await this.exec(id, 'cat /run/word')).json.stdout.trim()
    const disk = (await this.exec(id, 'cat /srv/word')).json.stdout.trim()
    return { memory, disk }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const left = await this.#tearDown()
    if (left.length > 0) throw new Error(`this stack was left untidy: ${left.join('; ')}`)
  }

  /** Closes everything; answers in sentences what should not have been there any more. */
  async #tearDown(): Promise<string[]> {
    const left: string[] = []
    await waitFor('no operation to be carried', () => this.#carried() === 0).catch(() =>
      left.push(`${this.#carried()} operations are still carried`),
    )
    // What is logged from here on is the closing itself: an answer that finds its link gone is no surprise.
    for (const line of this.chronicle.surprises) left.push(`logged as an error: ${JSON.stringify(line)}`)
    for (const host of this.hosts) this.secrets.learn(`the key of ${host.name}`, host.privateKey)
    for (const host of this.hosts) await host.close()
    for (const replica of this.replicas.filter(({ up }) => up)) {
      const { links } = replica.parts
      await waitFor('the links to close', () => links.hostIds().length === 0).catch(() =>
        left.push(`${links.hostIds().length} links are still open`),
      )
      await replica.stop()
    }
    left.push(...this.#leaks())
    left.push(...(await contradictionsInLog((text) => this.database.rows(text))))
    const sessions = await this.database.drop()
    if (sessions > 0) left.push(`${sessions} sessions of the database are still open`)
    return left
  }

  /** Everything that was logged and answered is searched for secrets. */
  #leaks(): string[] {
    const answers = this.replicas.flatMap(({ url }) => answersFrom(url))
    for (const answer of answers) this.secrets.learnFrom(answer)
    const found = [
      ...this.chronicle.lines.flatMap((line) => this.secrets.inText(`the line “${line.msg}”`, JSON.stringify(line))),
      ...answers.flatMap((answer) => this.secrets.inAnswer(answer)),
    ]
    return [...new Set(found)]
  }
}
