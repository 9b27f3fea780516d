// Acts as a hostile control plane for a real agent with simulated desktops: handshakes, welcomes, frames, commands and
// channels. An agent that ends, dials no more, hangs, or forgets the control plane that behaves is at fault.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newId } from '@dormouse/contract'
import { Child } from '../../crash/child.ts'
import { waitFor } from '../../wait-for.ts'
import { type Dice, diceOf } from '../dice.ts'
import { text, value } from '../http/words.ts'
import { command, guestCall, wakes } from '../link/commands.ts'
import { type Dial, HostileControlPlane } from '../link/hostile-control-plane.ts'
import { frame, nearly, noise } from '../link/sayings.ts'
import { type HeardFrame, RawLink } from '../link/socket.ts'
import type { Mode, Subject, Trial } from '../mode.ts'

export const controlPlane: Mode = {
  name: 'control-plane',
  about: 'a hostile control plane to an agent: upgrades, welcomes, commands, channels',
  remote: false,
  begin: ({ seed }) => ControlPlaneSubject.begin(seed),
}

/** An agent pauses between two dials: with many lines there is always one that is due. */
const lines = 24
const helloPatienceMs = 20_000
const maxRefusalBytes = 16_384
const kinds = ['upgrade', 'handshake', 'welcome', 'frames', 'commands', 'commands', 'commands'] as const
/** What the agent logs about a control plane that sends nonsense. */
const foreseen = /did not welcome|a deferred/

export class ControlPlaneSubject implements Subject {
  readonly atOnce = 12
  readonly #plane = new HostileControlPlane(lines)
  readonly #folder = mkdtempSync(join(tmpdir(), 'dormouse-fuzz-'))
  readonly #agent: Child
  readonly #free = Array.from({ length: lines }, (_, at) => at + 1)
  readonly #awake = newId()
  readonly #others = Array.from({ length: 20 }, () => newId())

  private constructor(agent: (plane: HostileControlPlane, folder: string) => Child) {
    this.#agent = agent(this.#plane, this.#folder)
  }

  static async begin(seed: number): Promise<ControlPlaneSubject> {
    const subject = new ControlPlaneSubject(agentOf)
    const plane = subject.#plane
    await plane.listen()
    // Chance of its own for channels, which come when the agent likes.
    plane.onChannel = (socket) => {
      const dice = diceOf(seed, plane.beats)
      for (let said = dice.int(100); said > 0; said--) socket.send(noise(dice), () => undefined)
      if (dice.chance(0.7)) socket.close()
    }
    subject.#agent.start({ DORMOUSE_AGENT_CONTROL_PLANES: plane.base(0) })
    await waitFor('the agent to link', () => plane.beats > 0)
    for (const { name, payload } of wakes(subject.#awake)) await plane.peer?.call(name, payload)
    return subject
  }

  get pid(): number | undefined {
    return this.#agent.pid
  }

  async try(dice: Dice): Promise<Trial> {
    const kind = dice.pick(kinds)
    const line = this.#free.shift()!
    const why: string[] = []
    const came: string[] = []
    try {
      const dial = await this.#plane.next(line)
      if (!dial) why.push('the agent dials no more')
      else came.push(...(await this.#speak(dial, line, dice, kind, why)))
      if (!this.#agent.alive) why.push('the agent has ended')
    } finally {
      this.#free.push(line)
    }
    return { kind, came, why, shown: { kind, came } }
  }

  /** Whether the agent still hears the control plane that behaves, and has logged no bug. */
  async verdict(): Promise<string[]> {
    if (!this.#agent.alive) return ['the agent has ended', ...this.#errors()]
    const before = this.#plane.beats
    const beats = await waitFor('a heartbeat', () => this.#plane.beats > before).catch(() => false)
    return [...(beats ? [] : ['the agent beats no more where it is welcome']), ...this.#errors()]
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#agent.kill()
    await this.#plane[Symbol.asyncDispose]()
    rmSync(this.#folder, { recursive: true, force: true })
  }

  #errors(): string[] {
    const lines = readFileSync(join(this.#folder, 'agent.log'), 'utf8').split('\n')
    const faults = lines.filter((line) => line !== '' && !/^\{"level":[1-4]0/.test(line) && !foreseen.test(line))
    return faults.slice(0, 8).map((line) => `the agent logged: ${line.slice(0, 700)}`)
  }

  async #speak(dial: Dial, line: number, dice: Dice, kind: string, why: string[]): Promise<string[]> {
    if (kind === 'upgrade') {
      dial.socket.end(dice.pick(answers)(dice))
      return ['upgrade']
    }
    const socket = await this.#plane.admit(dial)
    if (kind === 'handshake') {
      for (const words of dice.many(4, () => handshake(dice))) socket.send(words, () => undefined)
      socket.close()
      return ['handshake']
    }
    await this.#plane.prove(socket)
    const link = new RawLink(socket)
    const welcome = kind === 'welcome' ? nearly(dice, this.#plane.welcome(line)) : this.#plane.welcome(line)
    const asked: HeardFrame[] = []
    const greeted = Promise.withResolvers<boolean>()
    const late = setTimeout(() => greeted.resolve(false), helloPatienceMs)
    socket.on('close', () => greeted.resolve(true))
    if (socket.readyState !== socket.OPEN) greeted.resolve(true)
    link.onCall = (called) => {
      asked.push(called)
      const beat = { replicas: (this.#plane.welcome(line) as { replicas: string[] }).replicas }
      const payload = called.name === 'host.hello' ? welcome : kind === 'welcome' ? nearly(dice, beat) : beat
      link.say({ type: 'reply', to: called.n, payload })
      greeted.resolve(true)
    }
    // What is said before the agent has said hello is out of turn.
    if ((kind !== 'frames' || dice.chance(0.8)) && !(await greeted.promise)) why.push('the agent says no hello')
    clearTimeout(late)
    if (kind === 'frames') for (let said = 1; said <= 1 + dice.int(6); said++) link.raw(frame(dice, said))
    if (kind === 'commands') for (let said = dice.int(40); said > 0; said--) this.#command(link, dice)
    if (!(await link.settled())) why.push('the agent neither answered nor closed the link')
    if (link.largestRefusal > maxRefusalBytes) why.push(`a refusal of ${link.largestRefusal} bytes was answered`)
    const came = link.closed ?? 'linked'
    socket.terminate()
    return [came, ...asked.map(({ name = '' }) => name)]
  }

  #command(link: RawLink, dice: Dice): void {
    // The desktop that stays awake, so that there is one to send commands to, and those that come and go.
    const { name, payload } = dice.chance(0.5) ? guestCall(dice, this.#awake) : command(dice, dice.pick(this.#others))
    const n = link.say({
      type: 'call',
      name,
      payload: nearly(dice, payload),
      requestId: dice.pick(['r', text(dice).slice(0, 200)]),
    })
    if (dice.chance(0.1)) link.say({ type: 'cancel', to: n })
  }
}

function agentOf(_plane: HostileControlPlane, folder: string): Child {
  const env = {
    DORMOUSE_AGENT_ENROL_TOKEN: 'fuzz',
    DORMOUSE_AGENT_STATE_DIR: join(folder, 'state'),
    DORMOUSE_AGENT_METRICS_LISTEN: 'off',
    DORMOUSE_AGENT_NAME: 'fuzz',
    DORMOUSE_AGENT_DRIVER: 'simulated',
    DORMOUSE_AGENT_LOG_LEVEL: 'info',
  }
  return new Child({ file: 'apps/agent/src/main.ts', env, logFile: join(folder, 'agent.log') })
}

const handshake = (dice: Dice): string | Buffer =>
  dice.pick([
    JSON.stringify(nearly(dice, { nonce: 'n'.repeat(43) })),
    JSON.stringify(nearly(dice, { accepted: true })),
    JSON.stringify(value(dice)),
    text(dice),
    dice.bytes(6_000),
    'E'.repeat(5_000),
  ])

/** To an upgrade, in bytes. */
const answers: readonly ((dice: Dice) => string | Buffer)[] = [
  () => 'HTTP/1.1 401 Unauthorized\r\ncontent-length: 2\r\n\r\n{}',
  () => `HTTP/1.1 503 x\r\ncontent-type: application/problem+json\r\n\r\n{"detail":"${'F'.repeat(100_000)}"}`,
  () => 'HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:9/\r\n\r\n',
  () =>
    'HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\nsec-websocket-accept: x\r\n\r\n',
  () => `HTTP/1.1 200 OK\r\nx: ${'G'.repeat(50_000)}\r\n\r\n`,
  (dice) => dice.bytes(500),
  () => '',
]
