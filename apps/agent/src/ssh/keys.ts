// What a desktop's guest and its host know each other by: one key pair per desktop, its public half and the guest's host
// key exchanged through the guest agent, which only this host can reach. Nothing is trusted on first use.
import { join } from 'node:path'
import { type DesktopId, refuse } from '@dormouse/contract'
import ssh2 from 'ssh2'
import { z } from 'zod'
import type { GuestTransport } from '../driver/guest-transport.ts'
import { privateFolder, readIfThere, removeDurably, writeDurably } from '../mechanics/durable-file.ts'
import { quote } from '../scripts/exec.ts'

const pairSchema = z.object({ privateKey: z.string(), hostKey: z.base64() })
/** Our private key, and the guest's public one. */
export type GuestKeys = z.infer<typeof pairSchema>

/** 51 bytes: the word ssh-ed25519 and a key, each with its length. */
const hostKeyForm = /^[A-Za-z0-9+/]{68}$/

const exchangeSecs = 20

/** Which of the guest's SSH servers is to know us: our own on the port, or the one that the image has for its network. */
export type SshServer = 'port' | 'network'

export class SshKeys {
  readonly #folder: string

  constructor(folder: string) {
    this.#folder = folder
  }

  /** The keys exchanged before; undefined where there was no exchange, or they are of no use. */
  async read(desktopId: DesktopId): Promise<GuestKeys | undefined> {
    const text = await readIfThere(this.#path(desktopId))
    const keys = text === undefined ? undefined : pairSchema.safeParse(parseJson(text)).data
    return keys && isWhole(keys.privateKey) ? keys : undefined
  }

  /** Makes a pair, puts its public half into the guest and brings the guest's key back. */
  async exchange(desktopId: DesktopId, agent: GuestTransport, server: SshServer): Promise<GuestKeys> {
    const pair = newPair()
    const result = await agent.exec(
      {
        desktopId,
        generation: 0,
        command: exchangeScript(pair.public, server),
        cwd: null,
        env: {},
        stdin: null,
        timeoutSecs: exchangeSecs,
      },
      AbortSignal.timeout(2 * exchangeSecs * 1_000),
    )
    const [type, hostKey = ''] = result.stdout.trim().split(' ')
    if (result.exitCode !== 0 || type !== 'ssh-ed25519' || !hostKeyForm.test(hostKey)) {
      return refuse('guest_unavailable', 'the guest could not take a key')
    }
    const keys = { privateKey: pair.private, hostKey }
    await privateFolder(this.#folder)
    await writeDurably(this.#path(desktopId), JSON.stringify(keys))
    return keys
  }

  async forget(desktopId: DesktopId): Promise<void> {
    await removeDurably(this.#path(desktopId))
  }

  #path(desktopId: DesktopId): string {
    return join(this.#folder, `${desktopId}.json`)
  }
}

/** ssh2 drops the zeros at the beginning of a public key, and has then made a pair that nobody can read: one in 256. */
export function newPair(): { private: string; public: string } {
  for (;;) {
    const pair = ssh2.utils.generateKeyPairSync('ed25519', { comment: 'dormouse' })
    if (isWhole(pair.private)) return pair
  }
}

const isWhole = (privateKey: string): boolean => !(ssh2.utils.parseKey(privateKey) instanceof Error)

/** Where the disk cannot be written, the memory takes the key, until the next boot. */
const ours = (
  key: string,
) => `put() { mkdir -p "$1" && printf '%s\\n' ${key} >"$1/authorized_keys.new" && mv -f "$1/authorized_keys.new" "$1/authorized_keys"; }
put /etc/dormouse 2>/dev/null || put /run/dormouse || exit 1`

/** The other keys in it are its owner's, and stay; an earlier one of ours goes. */
const roots = (key: string) => `d=~root/.ssh; mkdir -p "$d" || exit 1
{ grep -v ' dormouse$' "$d/authorized_keys" 2>/dev/null; printf '%s\\n' ${key}; } >"$d/authorized_keys.new" && mv -f "$d/authorized_keys.new" "$d/authorized_keys" || exit 1`

const exchangeScript = (publicKey: string, server: SshServer): string => `umask 077
${(server === 'port' ? ours : roots)(quote(publicKey.trim()))}
n=0
until [ -s /etc/ssh/ssh_host_ed25519_key.pub ]; do n=$((n + 1)); [ $n -le 80 ] || exit 1; sleep 0.1; done
cat /etc/ssh/ssh_host_ed25519_key.pub
`

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
