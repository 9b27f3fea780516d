// Pastes a text into the program that has the focus: offers it as the clipboard, presses the keys that paste, and waits until
// the guest reads the text. Then puts back what was copied before.
import type { Damage } from './damage.ts'
import type { RfbSession } from './rfb-session.ts'
import { settle } from './settle.ts'

interface PasteOptions {
  pressKeys(): Promise<void>
  damage: Damage
  signal: AbortSignal
  /** Time for the program to read the text. */
  askMs?: number
}

/** For the guest to send what was copied before. If it does not, that is lost. */
const fetchMs = 2_000
/**
 * Keys must not overtake the offer: the program would paste what was copied before. The guest confirms no offer, unless one of
 * its programs reads the clipboard at once. So the head start is the time that its last reply took. A guest that has not
 * replied yet may be slow: an emulated one runs this code for the first time.
 */
const [leastHeadStartMs, mostHeadStartMs] = [300, 2_000]
/**
 * A program may read the clipboard twice, and QEMU answers the second time by itself (xfce4-terminal does). So what was copied
 * before comes back only when the program has shown the text, and the screen has been quiet for longer than the guest took to
 * read. If a program shows nothing, for example of a password, that takes all the time.
 */
const shownWithin = (askMs: number) => ({
  quietMs: within(100, 2 * askMs, 2_000),
  maxMs: within(1_500, 8 * askMs, 10_000),
})
/** What was typed before must not be taken for the text. */
const calm = { quietMs: 100, maxMs: 2_000 }

const within = (least: number, ms: number, most: number): number => Math.min(most, Math.max(least, ms))

/** Throws if no program of the guest reads the text. Returns early when the signal aborts. */
export async function paste(
  session: RfbSession,
  text: string,
  { pressKeys, damage, signal, askMs = 5_000 }: PasteOptions,
): Promise<void> {
  const { clipboard } = session
  const before = await clipboard.read(fetchMs, signal)
  const headStartMs = within(leastHeadStartMs, 2 * (clipboard.guestTookMs ?? Infinity), mostHeadStartMs)
  clipboard.offer(text)
  try {
    await clipboard.asked(headStartMs, signal)
    await settle(session, damage, calm, 'any', signal)
    const pressedAt = performance.now()
    await pressKeys()
    const wasAsked = await clipboard.asked(askMs, signal)
    if (signal.aborted || session.isEnded) return
    if (!wasAsked) throw new Error(notAsked(askMs))
    damage.mark()
    clipboard.guestTookMs = performance.now() - pressedAt
    await settle(session, damage, shownWithin(clipboard.guestTookMs), 'changed', signal)
  } finally {
    if (before !== undefined && !session.isEnded) clipboard.offer(before)
  }
}

const notAsked = (askMs: number): string =>
  `the text was not pasted, no program asked for it within ${askMs} ms; focus a text field first, or set \`paste\` to the keys with which the program pastes`
