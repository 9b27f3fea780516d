// How host and guest agree on the beginning of an SSH connection over a serial port. The guest may not notice that a host
// let go of the port, and its old server may still take what comes; so the host asks until the answer is to its latest
// question. Knows nothing of SSH.
import { randomBytes } from 'node:crypto'
import type { Duplex } from 'node:stream'
import { Refusal } from '@dormouse/contract'

const askEveryMs = 70
/** A guest that has little processor answers later than that, and would for ever answer the question before the latest. */
const askAtLeastEveryMs = 2_000
/** Frees a server that waits for the rest of a packet: more than the largest packet that SSH clients send. */
const filler = Buffer.concat([Buffer.alloc(40_959, 'x'), Buffer.from('\n')])
/** A guest that reads along answers the first questions; only one that does not needs the filler, and ever less often. */
const fillerAt = new Set([4, 10, 22, 46, 94])
const maxLineBytes = 512

/** Returns when the next bytes on the line belong to SSH; `guest_unavailable` where that is not in time. */
export async function shakeHands(line: Duplex, timeoutMs: number): Promise<void> {
  const agreed = Promise.withResolvers<void>()
  const fail = (why: string) => agreed.reject(new Refusal('guest_unavailable', why))
  const gone = () => fail('the guest’s port was closed')
  let [asked, nonce, heard] = [0, '', '']
  let everyMs = askEveryMs
  let asking: NodeJS.Timeout

  const ask = () => {
    asking = setTimeout(ask, everyMs)
    if (line.writableNeedDrain) return
    asked++
    if (fillerAt.has(asked)) line.write(filler)
    nonce = randomBytes(8).toString('hex')
    line.write(`\nRST ${nonce}\n`)
  }
  const hear = (bytes: Buffer) => {
    heard = (heard + bytes.toString('latin1')).slice(-maxLineBytes)
    if (!heard.includes(`RDY ${nonce}\n`)) return slowDown()
    line.write(`GO ${nonce}\n`)
    agreed.resolve()
  }

  const slowDown = () => {
    if (!/RDY [0-9a-f]{16}\n/.test(heard)) return
    heard = ''
    everyMs = Math.min(everyMs * 2, askAtLeastEveryMs)
  }

  const timer = setTimeout(() => fail('the guest’s SSH server did not come up'), timeoutMs)
  line.on('data', hear).once('close', gone).once('error', gone)
  ask()
  try {
    await agreed.promise
  } finally {
    clearTimeout(timer)
    clearTimeout(asking!)
    line.pause()
    line.off('data', hear).off('close', gone).off('error', gone)
  }
}
