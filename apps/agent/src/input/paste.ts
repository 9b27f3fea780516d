// Pastes a text into the program that has the focus: offers it as the clipboard, presses the keys that paste, and waits until the
// guest asks for the text. Then puts back what was copied before.
import type { Damage } from './damage.ts'
import type { RfbSession } from './rfb-session.ts'
import { settle } from './settle.ts'

interface PasteOptions {
  pressKeys(): Promise<void>
  damage: Damage
  signal: AbortSignal
  /** For the program to ask for the text. */
  askMs?: number
}

/** For the guest to send what was copied before. Where it does not, that is lost. */
const fetchMs = 2_000
/**
 * Keys must not overtake the offer: the program would paste what was copied before. The guest confirms no offer, unless one of its
 * programs asks at once. What was just fetched took the same way back and forth.
 */
const [leastHeadStartMs, mostHeadStartMs] = [300, 2_000]
/** For the program to show the text: keys that follow must not overtake it. One that shows nothing, such as for a password, takes it all. */
const shown = { quietMs: 100, maxMs: 1_500 }

/** Throws where no program of the guest asks for the text. Returns early when the signal aborts. */
export async function paste(
  session: RfbSession,
  text: string,
  { pressKeys, damage, signal, askMs = 5_000 }: PasteOptions,
): Promise<void> {
  const { clipboard } = session
  const startedAt = performance.now()
  const before = await clipboard.read(fetchMs, signal)
  const tookMs = performance.now() - startedAt
  clipboard.offer(text)
  try {
    await clipboard.asked(Math.min(mostHeadStartMs, Math.max(leastHeadStartMs, 2 * tookMs)), signal)
    await pressKeys()
    const wasAsked = await clipboard.asked(askMs, signal)
    if (signal.aborted || session.isEnded) return
    if (!wasAsked) throw new Error(notAsked(askMs))
    damage.mark()
    await settle(session, damage, shown, 'changed', signal)
  } finally {
    if (before !== undefined && !session.isEnded) clipboard.offer(before)
  }
}

const notAsked = (askMs: number): string =>
  `the text was not pasted, no program asked for it within ${askMs} ms; focus a text field first, or set \`paste\` to the keys with which the program pastes`
