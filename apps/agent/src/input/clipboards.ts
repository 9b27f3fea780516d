// The clipboards of guests, over the connections to their screens. A guest must share its clipboard, and a program in it must be
// connected for that.
import { setTimeout as sleep } from 'node:timers/promises'
import { clipboardMaxBytes, type DesktopId, refuse } from '@dormouse/contract'
import type { Driver } from '../driver/driver.ts'
import type { RfbClipboard } from './rfb-clipboard.ts'
import type { RfbSession } from './rfb-session.ts'

export type ClipboardDriver = Pick<Driver, 'keyboard' | 'clipboardConnected'>

/** The guest's program ends at each hibernation, and is back some seconds after a wake. */
const connectMs = 10_000
const lookMs = 100
/** For the guest to send its text. */
const askMs = 5_000

/** A text that no program has asked for is offered again after each of these times. */
const againMs = [300, 1_000, 2_000, 4_000, 8_000]

/** Throws if the guest has no clipboard to share. */
export async function requireClipboard(driver: ClipboardDriver, desktopId: DesktopId): Promise<void> {
  const { clipboard } = await driver.keyboard(desktopId)
  if (!clipboard || !(await isConnectedInTime(driver, desktopId))) refuse('clipboard_unavailable')
}

/** Waits for the guest's program for the clipboard. */
export async function isConnectedInTime(driver: ClipboardDriver, desktopId: DesktopId): Promise<boolean> {
  const ends = performance.now() + connectMs
  while (!(await driver.clipboardConnected(desktopId))) {
    if (performance.now() > ends) return false
    await sleep(lookMs)
  }
  return true
}

/** Offers a text. A guest whose program has only just connected drops offers without a sign, so that it is offered several times. */
export function offerTo(clipboard: RfbClipboard, text: string): void {
  clipboard.offer(text)
  void repeat(clipboard, clipboard.offers)
}

async function repeat(clipboard: RfbClipboard, offer: number): Promise<void> {
  for (const ms of againMs) {
    await clipboard.asked(ms)
    if (clipboard.offers !== offer) return
    clipboard.repeat()
  }
}

/** The text that was copied last; null if the session has seen none. */
export async function readFrom(session: RfbSession): Promise<{ text: string | null; truncated: boolean }> {
  const text = (await session.clipboard.read(askMs)) ?? null
  if (text === null) return { text, truncated: false }
  const bytes = Buffer.from(text)
  if (bytes.length <= clipboardMaxBytes) return { text, truncated: false }
  // A character that is cut is left out.
  return {
    text: new TextDecoder().decode(bytes.subarray(0, clipboardMaxBytes)).replace(/\uFFFD$/, ''),
    truncated: true,
  }
}
