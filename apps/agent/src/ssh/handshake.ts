// The start of an SSH connection over a serial port. The guest may not notice that its host has closed the port, and its
// old server may still read what comes. So the host asks until it gets the answer to its latest question. Knows nothing of
// SSH.
import { randomBytes } from 'node:crypto'
import type { Duplex } from 'node:stream'
import { Refusal } from '@dormouse/contract'

const askEveryMs = 70
/** A guest with little processor time answers later than that, and would forever answer the question before the latest. */
const askAtLeastEveryMs = 2_000
/** Frees a server that waits for the rest of a packet: more than the largest packet that SSH clients send. */
const filler = Buffer.concat([Buffer.alloc(40_959, 'x'), Buffer.from('\n')])
/** A guest that reads answers the first questions. Only one that does not needs the filler, less and less often. */
const fillerAt = new Set([4, 10, 22, 46, 94])
const maxAnswerBytes = 512

/** Returns when the next bytes on the port belong to SSH; `guest_unavailable` if that is not in time. */
export async function shakeHands(port: Duplex, timeoutMs: number): Promise<void> {
  const agreed = Promise.withResolvers<void>()
  const fail = (why: string) => agreed.reject(new Refusal('guest_unavailable', why))
  const onClose = () => fail('the guest’s SSH port was closed')
  let [asked, nonce, received] = [0, '', '']
  let everyMs = askEveryMs
  let asking: NodeJS.Timeout

  const ask = () => {
    asking = setTimeout(ask, everyMs)
    if (port.writableNeedDrain) return
    asked++
    if (fillerAt.has(asked)) port.write(filler)
    nonce = randomBytes(8).toString('hex')
    port.write(`\nRST ${nonce}\n`)
  }
  const onData = (bytes: Buffer) => {
    received = (received + bytes.toString('latin1')).slice(-maxAnswerBytes)
    if (!received.includes(`RDY ${nonce}\n`)) return slowDown()
    port.write(`GO ${nonce}\n`)
    agreed.resolve()
  }

  const slowDown = () => {
    if (!/RDY [0-9a-f]{16}\n/.test(received)) return
    received = ''
    everyMs = Math.min(everyMs * 2, askAtLeastEveryMs)
  }

  const timer = setTimeout(() => fail('the guest’s SSH server did not answer on its port in time'), timeoutMs)
  port.on('data', onData).once('close', onClose).once('error', onClose)
  ask()
  try {
    await agreed.promise
  } finally {
    clearTimeout(timer)
    clearTimeout(asking!)
    port.pause()
    port.off('data', onData).off('close', onClose).off('error', onClose)
  }
}
