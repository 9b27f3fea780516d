// The SSH keys of each desktop: one key pair per desktop. Its public key and the guest's host key are exchanged through the
// guest agent, which only this host can reach. Nothing is trusted on first use.
import { join } from 'node:path'
import type { DesktopId } from '@dormouse/contract'
import ssh2 from 'ssh2'
import { z } from 'zod'
import type { WakeNews } from '../driver/guest-access.ts'
import { privateFolder, readIfThere, removeDurably, writeDurably } from '../mechanics/durable-file.ts'
import { parseJson } from '../mechanics/parse-json.ts'
import { authorizedKeysPath, hostKeyPath } from '../scripts/bring-in.ts'

const keysSchema = z.object({ privateKey: z.string(), hostKey: z.base64() })
/** Our private key, and the guest's public host key. */
export type GuestKeys = z.infer<typeof keysSchema>

export class SshKeys {
  readonly #folder: string

  constructor(folder: string) {
    this.#folder = folder
  }

  /** The keys of the last exchange; undefined if there was none, or they cannot be used. */
  async read(desktopId: DesktopId): Promise<GuestKeys | undefined> {
    const text = await readIfThere(this.#path(desktopId))
    const keys = text === undefined ? undefined : keysSchema.safeParse(parseJson(text)).data
    return keys && isReadable(keys.privateKey) ? keys : undefined
  }

  /** Creates a key pair, gives the guest its public key and stores the guest's host key. */
  async exchange(desktopId: DesktopId, give: (publicKey: string) => Promise<string>): Promise<GuestKeys> {
    const pair = newPair()
    const keys = { privateKey: pair.private, hostKey: await give(pair.public) }
    privateFolder(this.#folder)
    await writeDurably(this.#path(desktopId), JSON.stringify(keys))
    return keys
  }

  /** Creates both key pairs. The files are for the guest: its own host key, and our public key. */
  async introduce(desktopId: DesktopId): Promise<WakeNews['files']> {
    const [ours, theirs] = [newPair(), newPair()]
    const hostKey = theirs.public.split(' ')[1]!
    privateFolder(this.#folder)
    await writeDurably(this.#path(desktopId), JSON.stringify({ privateKey: ours.private, hostKey } satisfies GuestKeys))
    return [
      { path: hostKeyPath, mode: 0o600, bytes: Buffer.from(theirs.private) },
      { path: `${hostKeyPath}.pub`, mode: 0o644, bytes: Buffer.from(`${theirs.public}\n`) },
      { path: authorizedKeysPath, mode: 0o600, bytes: Buffer.from(`${ours.public}\n`) },
    ]
  }

  async forget(desktopId: DesktopId): Promise<void> {
    await removeDurably(this.#path(desktopId))
  }

  #path(desktopId: DesktopId): string {
    return join(this.#folder, `${desktopId}.json`)
  }
}

/** A key pair. ssh2 drops the zeros at the start of a public key: one pair in 256 cannot be read and is generated again. */
export function newPair(): { private: string; public: string } {
  for (;;) {
    const pair = ssh2.utils.generateKeyPairSync('ed25519', { comment: 'dormouse' })
    if (isReadable(pair.private)) return pair
  }
}

const isReadable = (privateKey: string): boolean => !(ssh2.utils.parseKey(privateKey) instanceof Error)
