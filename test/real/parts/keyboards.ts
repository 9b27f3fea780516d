// Keys as keyboards of other countries press them in a browser, and the same layout for a guest's console. The driver of
// the browser knows an American keyboard only, so each key is described as the system would report it.
import type { Desktop } from '@dormouse/client'
import type { Page } from 'playwright-core'
import { guest } from './witness.ts'

export interface Key {
  /** What the layout makes of it; `Dead` for one that waits for the next. */
  key: string
  /** Its position, by the name on an American keyboard. */
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

/** Presses and releases keys, one after the other; with AltGr if `withAltGr` is set. */
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
const [plain, withShiftHeld] = [0, 1]
/** Rows of keys by the number of the first: their characters alone, with Shift and with AltGr; a space leaves the key as it is. */
const germanRows: readonly (readonly [number, ...string[]])[] = [
  [2, '1234567890ß', '!"§$%&/()=?', ' ²³   {[]}\\'],
  [16, 'qwertzuiopü+', 'QWERTZUIOPÜ*', '@ €        ~'],
  [30, 'asdfghjklöä', 'ASDFGHJKLÖÄ'],
  [43, '#', "'"],
  [44, 'yxcvbnm,.-', 'YXCVBNM;:_', '      µ'],
  [86, '<', '>', '|'],
  [41, ' ', '°'],
]
/** Dead accents: acute, grave and circumflex. */
const germanAccents = [
  [plain, 13, 0x04_01],
  [withShiftHeld, 13, 0x04_00],
  [plain, 41, 0x04_02],
] as const

/** Keys of a guest's console, as `dumpkmap` writes them, as German ones. */
export function asGerman(dumped: Uint8Array): Buffer<ArrayBuffer> {
  const keys = Buffer.from(dumped)
  for (const [first, ...levels] of germanRows) {
    for (const [table, chars] of levels.entries()) {
      for (const [i, char] of [...chars].entries()) {
        // The kernel takes Unicode so.
        if (char !== ' ') keys.writeUInt16LE(char.charCodeAt(0) ^ 0xf0_00, placeOf(keys, table, first + i))
      }
    }
  }
  for (const [table, number, accent] of germanAccents) keys.writeUInt16LE(accent, placeOf(keys, table, number))
  return keys
}

/** Makes the keys of the guest's console German ones; returns how to make them as they were. */
export async function loadGermanKeys(desktop: Desktop): Promise<() => Promise<void>> {
  await guest(desktop, 'dumpkmap > /run/keys')
  const keys = Buffer.from(await desktop.files.read('/run/keys', { format: 'bytes' }))
  await desktop.files.write('/run/german', asGerman(keys))
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
