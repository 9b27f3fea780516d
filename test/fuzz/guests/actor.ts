// A guest that is as it should be, until a part of it is told to be otherwise: its agent, its SSH server, its screen. Knows
// how to be fair; how to be hostile is said in `manner`.
import type { Socket } from 'node:net'
import { SimulatedScreen } from '@dormouse/agent/driver/simulated/screen.ts'
import { newPair } from '@dormouse/agent/ssh/keys.ts'
import { endOf, LocalShells } from '@dormouse/agent/testing/ssh-server.ts'
import ssh2, { type Connection, type Server, type ServerChannel } from 'ssh2'
import type { Guest } from './hypervisor.ts'

/** One channel of the SSH server: where to say what, and the number that the host's messages about it carry. */
export interface Line {
  client: Connection
  number: number
  nonce: string
}

type Agent = (command: string) => Promise<string>

/** What a guest does otherwise than it should; what is left out, it does fairly. */
export interface Manner {
  agent?: (command: string, fair: Agent) => Promise<string>
  /** Says something else on its port than that it is ready for SSH. */
  door?: (socket: Socket) => void
  /** Before a command begins on its channel, and once it has begun. */
  early?: (line: Line) => void
  channel?: (line: Line) => void
  screen?: (socket: Socket) => void
}

export class Actor implements Guest {
  manner: Manner = {}
  readonly #key = newPair()
  readonly #server: Server
  readonly #screen = new SimulatedScreen()
  readonly #shells = new LocalShells()

  constructor() {
    this.#server = new ssh2.Server({ hostKeys: [this.#key.private], ident: 'OpenSSH_9.2' }, (client) => {
      client.on('error', () => undefined).on('authentication', (context) => context.accept())
      client.on('session', (accept) => {
        const session = accept()
        session.on('error', () => undefined)
        session.on('exec', (begin, _refuse, { command }) => this.#exec(client, session, begin, command))
      })
    })
    this.#server.on('error', () => undefined)
  }

  async agent(command: string): Promise<string> {
    const fair = fairAgent(this.#key.public)
    return this.manner.agent ? this.manner.agent(command, fair) : fair(command)
  }

  /** As our program does: returns the latest question, and begins SSH if the host says go. */
  port(socket: Socket): void {
    if (this.manner.door) this.manner.door(socket)
    else this.#fairPort(socket)
  }

  #fairPort(socket: Socket): void {
    let heard = Buffer.alloc(0)
    const hear = (bytes: Buffer) => {
      heard = Buffer.concat([heard, bytes])
      const text = heard.toString('latin1')
      const nonce = [...text.matchAll(/RST (\w+)\n/g)].at(-1)?.[1]
      const go = /GO (\w+)\n/.exec(text)
      if (!go && nonce) socket.write(`RDY ${nonce}\n`)
      if (!go) return
      socket.off('data', hear).pause()
      const rest = heard.subarray(go.index + go[0].length)
      if (rest.length > 0) socket.unshift(rest)
      this.#server.injectSocket(socket)
    }
    socket.on('data', hear)
  }

  screen(socket: Socket): void {
    if (this.manner.screen) this.manner.screen(socket)
    else void this.#screen.serve(socket, new AbortController().signal)
  }

  #exec(client: Connection, session: object, begin: () => ServerChannel, script: string): void {
    const [, ofScript, ofStream] = /dormouse-(\w+) began | stream (\w+) /.exec(script) ?? []
    const nonce = ofScript ?? ofStream ?? ''
    this.manner.early?.({ client, number: numberOf(session), nonce })
    const channel = begin().on('error', () => undefined)
    if (this.manner.channel) this.manner.channel({ ...endOf(channel), nonce })
    else this.#shells.answer(channel, script)
  }

  close(): void {
    this.#shells.close()
  }
}

const numberOf = (session: object) => (session as { _chanInfo: { outgoing: { id: number } } })._chanInfo.outgoing.id

const returned = (value: unknown): string => JSON.stringify({ return: value })

/** An agent that does all it is asked, and whose programs have succeeded at once. */
function fairAgent(publicKey: string): Agent {
  return async (command) => {
    const { execute } = JSON.parse(command) as { execute: string }
    if (execute === 'guest-exec') return returned({ pid: 1 })
    if (execute !== 'guest-exec-status') return returned({})
    return returned({ exited: true, exitcode: 0, 'out-data': Buffer.from(publicKey).toString('base64') })
  }
}
