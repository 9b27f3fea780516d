// Acts as a hostile host for a real control plane: it enrolled, holds its key, and keeps no rule after that. A control plane
// that ends, hangs, returns 500 to a customer or repeats without a bound what it received is at fault.

import { answerTo } from '@dormouse/agent/enrolment/identity.ts'
import { linkSubprotocol, newId } from '@dormouse/contract'
import { WebSocket } from 'ws'
import { modestFacts, RogueHost } from '../../integration/parts/rogue-host.ts'
import type { Dice } from '../dice.ts'
import { value } from '../http/words.ts'
import { answerOf } from '../link/answers.ts'
import { anId, frame, nearly, noise } from '../link/sayings.ts'
import { type HeardFrame, RawLink } from '../link/socket.ts'
import type { Mode, Subject, Trial } from '../mode.ts'
import { Service } from '../service.ts'

export const host: Mode = {
  name: 'host',
  about: 'a hostile host to a control plane: links, channels, reports and answers',
  remote: true,
  begin: async ({ target, say }) => HostSubject.begin(await Service.at(target, say, quick)),
}

/** A host that does not answer is waited for no longer than this. */
const quick = {
  DORMOUSE_WAKE_DEADLINE_SECS: '2',
  DORMOUSE_HIBERNATE_DEADLINE_SECS: '2',
  DORMOUSE_DESTROY_DEADLINE_SECS: '2',
}
const customersPatienceMs = 3_000
const maxRefusalBytes = 16_384
const facts = {
  ...modestFacts,
  capacity: { memoryMiB: 8_000_000, diskGiB: 100_000 },
  processors: 128,
  freeDiskGiB: 9_000,
  images: ['mini'],
}
const kinds = ['handshake', 'frames', 'hello', 'talk', 'talk', 'talk', 'channel'] as const

export class HostSubject implements Subject {
  readonly atOnce = 3
  readonly #service: Service
  readonly #free: RogueHost[] = []
  /** The ids of desktops that a hostile host may have. */
  readonly #ids: string[] = []

  private constructor(service: Service) {
    this.#service = service
  }

  static async begin(service: Service): Promise<HostSubject> {
    const subject = new HostSubject(service)
    const { url, operatorKey } = service.target
    if (!operatorKey) throw new Error('a hostile host needs an invitation: give --operator-key')
    for (let rogue = 0; rogue < subject.atOnce; rogue++) {
      const headers = { authorization: `Bearer ${operatorKey}` }
      const answer = await fetch(`${url}/admin/v1/hosts/invites`, { method: 'POST', headers, body: '{}' })
      const { token } = (await answer.json()) as { token: string }
      subject.#free.push(await RogueHost.enrol(url, token, `fuzz-${rogue}`))
    }
    return subject
  }

  get pid(): number | undefined {
    return this.#service.pid
  }

  async try(dice: Dice): Promise<Trial> {
    const kind = dice.pick(kinds)
    const rogue = this.#free.pop()!
    const why: string[] = []
    const came: string[] = []
    try {
      const link = await this.#open(rogue, dice, kind)
      if (link) {
        came.push(...(await this.#speak(link, rogue, dice, kind, why)))
        if (!(await link.settled())) why.push('the control plane neither answered nor closed the link')
        if (link.largestRefusal > maxRefusalBytes) why.push(`a refusal of ${link.largestRefusal} bytes was answered`)
        came.push(link.closed ?? 'linked')
        link.socket.terminate()
      } else came.push('turned away')
      why.push(...(await this.#alive()))
    } finally {
      this.#free.push(rogue)
    }
    return { kind, came, why, shown: { kind, came } }
  }

  async verdict(): Promise<string[]> {
    await Promise.all(this.#ids.map((id) => this.#ask('POST', `/v1/desktops/${id}/destroy`)))
    return [...(await this.#alive()), ...this.#service.errors()]
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#service[Symbol.asyncDispose]()
  }

  /** A socket that has proved its host, or has tried to. */
  async #open({ url, identity }: RogueHost, dice: Dice, kind: string): Promise<RawLink | undefined> {
    const socket = new WebSocket(`${url.replace(/^http/, 'ws')}/agent/v1/link`, [linkSubprotocol])
    const { promise, resolve } = Promise.withResolvers<RawLink | undefined>()
    socket.on('error', () => resolve(undefined)).on('close', () => resolve(undefined))
    socket.once('message', (challenge) => {
      const { nonce } = JSON.parse(String(challenge)) as { nonce: string }
      const proof = { hostId: identity.hostId, signature: answerTo(nonce, identity) }
      socket.once('message', () => resolve(new RawLink(socket)))
      if (kind !== 'handshake') return socket.send(JSON.stringify(proof))
      for (const words of dice.many(3, () => JSON.stringify(nearly(dice, proof)))) socket.send(words)
      socket.send(dice.chance(0.5) ? dice.bytes(6_000) : JSON.stringify(value(dice)))
    })
    return promise
  }

  async #speak(link: RawLink, rogue: RogueHost, dice: Dice, kind: string, why: string[]): Promise<string[]> {
    link.onCall = (called) => this.#answer(link, dice, called, rogue)
    if (kind === 'handshake') return []
    if (kind === 'frames') {
      for (let said = 1; said <= 1 + dice.int(6); said++) link.raw(frame(dice, said))
      return []
    }
    const hello = rogue.hello({ facts, inventory: dice.many(3, () => this.#observation(dice)) })
    link.say({ type: 'call', name: 'host.hello', payload: kind === 'hello' ? nearly(dice, hello) : hello })
    if (kind === 'hello') return []
    for (let said = dice.int(30); said > 0; said--) this.#say(link, dice)
    const asked = await this.#customer(dice, kind)
    why.push(...asked.filter((status) => status === '500').map(() => 'a customer was answered 500'))
    return asked.map((status) => `customer ${status}`)
  }

  #say(link: RawLink, dice: Dice): void {
    const running = () => dice.many(4, () => ({ desktopId: anId(dice, this.#ids), generation: dice.int(4) }))
    const progress = {
      desktopId: anId(dice, this.#ids),
      operationId: newId(),
      phase: 'saving',
      doneBytes: 1,
      totalBytes: 2,
    }
    const sayings: (() => object)[] = [
      () => ({ type: 'event', name: 'desktop.observed', payload: nearly(dice, this.#observation(dice)) }),
      () => ({ type: 'event', name: 'operation.progress', payload: nearly(dice, progress) }),
      () => ({ type: 'event', name: dice.pick(['constructor', '__proto__', 'toString', 'x']), payload: value(dice) }),
      () => ({
        type: 'call',
        name: 'host.heartbeat',
        payload: nearly(dice, { facts, running: running(), activity: [] }),
      }),
      () => ({ type: 'call', name: dice.pick(['__proto__', 'host.inventory', 'x'.repeat(200)]), payload: value(dice) }),
      () => ({ type: 'cancel', to: dice.int(50) }),
    ]
    link.say(dice.pick(sayings)())
  }

  /** What a command is answered: in earnest as often as not, so that there is something to be asked for. */
  #answer(link: RawLink, dice: Dice, { n: to, name = '', payload }: HeardFrame, rogue: RogueHost): void {
    const channel = (payload as { channel?: string } | undefined)?.channel
    if (channel && dice.chance(0.8)) this.#channel(rogue, channel, dice)
    const good = answerOf(name, payload, () => dice.many(30, () => this.#observation(dice)))
    const answers: (() => void)[] = [
      () => link.say({ type: 'reply', to, payload: good }),
      () => link.say({ type: 'reply', to, payload: good }),
      () => link.say({ type: 'reply', to, payload: good }),
      () => link.say({ type: 'reply', to, payload: nearly(dice, good) }),
      () => link.say({ type: 'refused', to, code: dice.pick(codes), detail: dice.pick(['no', 'D'.repeat(300_000)]) }),
      () => link.say({ type: 'failed', to, incident: dice.pick(['x', 'y'.repeat(200)]) }),
      () => undefined,
    ]
    dice.pick(answers)()
  }

  #channel({ url }: RogueHost, token: string, dice: Dice): void {
    const socket = new WebSocket(`${url.replace(/^http/, 'ws')}/agent/v1/channels/${token}`)
    socket.on('error', () => undefined)
    socket.on('open', () => {
      for (let said = dice.int(100); said > 0; said--) socket.send(noise(dice), () => undefined)
      if (dice.chance(0.5)) socket.terminate()
      else socket.close()
    })
  }

  #observation(dice: Dice): object {
    const domain = dice.pick(['absent', 'running', 'paused', 'stopped'])
    const memory = dice.pick(['none', 'partial', 'complete', 'spent', 'damaged'])
    const [generation, turn] = [dice.int(5), dice.int(9)]
    return {
      desktopId: anId(dice, this.#ids),
      generation,
      turn,
      operationId: null,
      domain,
      memory,
      disk: true,
      reason: 'x',
    }
  }

  /** A customer uses what the host may have; returns the statuses. */
  async #customer(dice: Dice, kind: string): Promise<string[]> {
    const made = dice.chance(0.4) || this.#ids.length === 0 ? await this.#create() : []
    const id = anId(dice, this.#ids)
    const on = (method: string, path: string, body?: string) => () =>
      this.#ask(method, `/v1/desktops/${id}${path}`, body)
    const wishes =
      kind === 'channel'
        ? [on('GET', '/files/tmp/x'), on('PUT', '/files/tmp/x', 'bytes'), on('GET', '/screenshot')]
        : [on('POST', '/wake?wait=true'), on('POST', '/hibernate?wait=true'), on('POST', '/exec', '{"command":"true"}')]
    return [...made, await dice.pick([...wishes, on('POST', '/destroy')])()]
  }

  async #create(): Promise<string[]> {
    const { url, key } = this.#service.target
    const headers = { authorization: `Bearer ${key}` }
    const answer = await fetch(`${url}/v1/desktops`, { method: 'POST', headers, body: '{"tier":"small"}' })
    const { id } = (await answer.json()) as { id?: string }
    if (id) this.#ids.push(id)
    return [String(answer.status), id ? await this.#ask('POST', `/v1/desktops/${id}/wake?wait=true`) : 'none']
  }

  /** The status; a customer who has waited long enough goes away. */
  async #ask(method: string, path: string, body?: string): Promise<string> {
    const { url, key } = this.#service.target
    const headers = { authorization: `Bearer ${key}` }
    const signal = AbortSignal.timeout(customersPatienceMs)
    try {
      const answer = await fetch(url + path, { method, headers, body: body ?? null, signal })
      await answer.arrayBuffer()
      return String(answer.status)
    } catch {
      return 'gone'
    }
  }

  async #alive(): Promise<string[]> {
    const healthy = await fetch(`${this.#service.target.url}/healthz`).then(
      ({ status }) => status === 200,
      () => false,
    )
    return healthy ? this.#service.verdict() : ['the control plane does not answer /healthz']
  }
}

const codes = [
  'no_room',
  'hypervisor_failed',
  'superseded',
  'stale_turn',
  'not_leader',
  'unauthenticated',
  'z'.repeat(200),
  '',
]
