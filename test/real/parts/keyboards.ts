// Keys as keyboards of other countries press them in a browser, and the same layout for a guest's console. The driver of
// the browser knows an American keyboard only, so each key is described as the system would report it.
import type { Desktop } from '@dormouse/client'
import type { Page } from 'playwright-core'
import { guest } from './witness.ts'

export interface Key {
  /** What the layout makes of it; `Dead` for one that waits for the next. */
  key: string
  /** Where it is, by its name on an American keyboard. */
  code: string
}

const altGr: Key = { key: 'AltGraph', code: 'AltRight' }

export const german = {
  ü: { key: 'ü', code: 'BracketLeft' },
  ß: { key: 'ß', code: 'Minus' },
  z: { key: 'z', code: 'KeyY' },
  acute: { key: 'Dead', code: 'Equal' },
  at: { key: '@', code: 'KeyQ' },
  euro: { key: '€', code: 'KeyE' },
  enter: { key: 'Enter', code: 'Enter' },
} as const satisfies Record<string, Key>

export const french = {
  a: { key: 'a', code: 'KeyQ' },
  é: { key: 'é', code: 'Digit2' },
  ù: { key: 'ù', code: 'Quote' },
  circumflex: { key: 'Dead', code: 'BracketLeft' },
} as const satisfies Record<string, Key>

/** Presses and releases keys, one after the other; with AltGr where that is wished. */
export async function press(page: Page, keys: Key[], withAltGr = false): Promise<void> {
  const session = await page.context().newCDPSession(page)
  const turn = (type: 'keyDown' | 'keyUp', { key, code }: Key) =>
    session.send('Input.dispatchKeyEvent', { type, key, code, windowsVirtualKeyCode: key.toUpperCase().charCodeAt(0) })
  if (withAltGr) await turn('keyDown', altGr)
  for (const key of keys) {
    await turn('keyDown', key)
    await turn('keyUp', key)
  }
  if (withAltGr) await turn('keyUp', altGr)
  await session.detach()
}

/** Places of the kernel's tables of keys. */
const [plain, withAltGrHeld] = [0, 2]
/** By table and number of the key: characters as the kernel takes Unicode, and a dead acute accent. */
const germanKeys = [
  [plain, 21, 'z'],
  [plain, 44, 'y'],
  [plain, 26, 'ü'],
  [plain, 12, 'ß'],
  [plain, 13, 0x04_01],
  [withAltGrHeld, 16, '@'],
  [withAltGrHeld, 18, '€'],
] as const

/** Makes the keys of the guest's console German ones; answers how to make them as they were. */
export async function loadGermanKeys(desktop: Desktop): Promise<() => Promise<void>> {
  await guest(desktop, 'dumpkmap > /run/keys')
  const keys = Buffer.from(await desktop.files.read('/run/keys', { format: 'bytes' }))
  for (const [table, number, what] of germanKeys) {
    keys.writeUInt16LE(typeof what === 'number' ? what : what.charCodeAt(0) ^ 0xf0_00, placeOf(keys, table, number))
  }
  await desktop.files.write('/run/german', keys)
  await guest(desktop, 'loadkmap < /run/german')
  return async () => {
    await guest(desktop, 'loadkmap < /run/keys')
  }
}

/** A word that names the format, a flag for each of 256 tables, and of each that is there 128 numbers of 16 bits. */
function placeOf(keys: Buffer, table: number, number: number): number {
  const flags = 'bkeymap'.length
  const before = keys.subarray(flags, flags + table).filter((isThere) => isThere === 1).length
  return flags + 256 + (before * 128 + number) * 2
}
