// The names of keys: those of W3C `KeyboardEvent.key`, and what other tools call them. Pure. Knows no layout.
import { nearest, suggestion } from './nearest.ts'

/** Named keys, with the scancode of each (AT set 1; 0x80 stands for the prefix e0, as QEMU's extended key events have it). */
export const keyCodes = {
  Escape: 0x01,
  Backspace: 0x0e,
  Tab: 0x0f,
  Enter: 0x1c,
  Control: 0x1d,
  ControlRight: 0x9d,
  Shift: 0x2a,
  ShiftRight: 0x36,
  Alt: 0x38,
  AltGraph: 0xb8,
  Meta: 0xdb,
  MetaRight: 0xdc,
  ContextMenu: 0xdd,
  Space: 0x39,
  CapsLock: 0x3a,
  NumLock: 0x45,
  ScrollLock: 0x46,
  PrintScreen: 0xb7,
  Pause: 0xc6,
  Insert: 0xd2,
  Delete: 0xd3,
  Home: 0xc7,
  End: 0xcf,
  PageUp: 0xc9,
  PageDown: 0xd1,
  ArrowUp: 0xc8,
  ArrowLeft: 0xcb,
  ArrowRight: 0xcd,
  ArrowDown: 0xd0,
  F1: 0x3b,
  F2: 0x3c,
  F3: 0x3d,
  F4: 0x3e,
  F5: 0x3f,
  F6: 0x40,
  F7: 0x41,
  F8: 0x42,
  F9: 0x43,
  F10: 0x44,
  F11: 0x57,
  F12: 0x58,
  NumpadEnter: 0x9c,
  NumpadDivide: 0xb5,
  NumpadMultiply: 0x37,
  NumpadSubtract: 0x4a,
  NumpadAdd: 0x4e,
  NumpadDecimal: 0x53,
  Numpad0: 0x52,
  Numpad1: 0x4f,
  Numpad2: 0x50,
  Numpad3: 0x51,
  Numpad4: 0x4b,
  Numpad5: 0x4c,
  Numpad6: 0x4d,
  Numpad7: 0x47,
  Numpad8: 0x48,
  Numpad9: 0x49,
  AudioVolumeMute: 0xa0,
  AudioVolumeDown: 0xae,
  AudioVolumeUp: 0xb0,
  MediaPlayPause: 0xa2,
  MediaStop: 0xa4,
  MediaTrackNext: 0x99,
  MediaTrackPrevious: 0x90,
  BrowserHome: 0xb2,
  BrowserSearch: 0xe5,
  BrowserFavorites: 0xe6,
  BrowserRefresh: 0xe7,
  BrowserStop: 0xe8,
  BrowserForward: 0xe9,
  BrowserBack: 0xea,
} as const satisfies Record<string, number>

export type NamedKey = keyof typeof keyCodes

const names = new Map(Object.keys(keyCodes).map((name) => [name.toLowerCase(), name as NamedKey]))

/** What X, OpenAI, E2B and people call keys, in lower case without `_`. */
const aliases: Readonly<Record<string, NamedKey | string>> = {
  ...{ ctrl: 'Control', controll: 'Control', ctrll: 'Control', controlleft: 'Control', lctrl: 'Control' },
  ...{ ctrlleft: 'Control', controlr: 'ControlRight', ctrlr: 'ControlRight', rctrl: 'ControlRight' },
  ...{ shiftl: 'Shift', shiftleft: 'Shift', lshift: 'Shift', shiftr: 'ShiftRight', rshift: 'ShiftRight' },
  ...{ altl: 'Alt', altleft: 'Alt', lalt: 'Alt', option: 'Alt', altr: 'AltGraph', altright: 'AltGraph' },
  ...{ ralt: 'AltGraph', altgr: 'AltGraph', isolevel3shift: 'AltGraph', modeswitch: 'AltGraph' },
  ...{ super: 'Meta', superl: 'Meta', superr: 'MetaRight', metal: 'Meta', metar: 'MetaRight', metaleft: 'Meta' },
  ...{ win: 'Meta', windows: 'Meta', cmd: 'Meta', command: 'Meta', os: 'Meta', hyperl: 'Meta', osleft: 'Meta' },
  ...{ return: 'Enter', esc: 'Escape', bksp: 'Backspace', backspacekey: 'Backspace', back: 'Backspace' },
  ...{ del: 'Delete', ins: 'Insert', pgup: 'PageUp', pgdn: 'PageDown', pgdown: 'PageDown', prior: 'PageUp' },
  ...{ next: 'PageDown', up: 'ArrowUp', down: 'ArrowDown', left: 'ArrowLeft', right: 'ArrowRight' },
  ...{ uparrow: 'ArrowUp', downarrow: 'ArrowDown', leftarrow: 'ArrowLeft', rightarrow: 'ArrowRight' },
  ...{ caps: 'CapsLock', num: 'NumLock', scroll: 'ScrollLock', break: 'Pause', sysrq: 'PrintScreen' },
  ...{ print: 'PrintScreen', prtsc: 'PrintScreen', prtscr: 'PrintScreen', menu: 'ContextMenu', apps: 'ContextMenu' },
  ...{ spacebar: 'Space', linefeed: 'Enter', isolefttab: 'Tab' },
  ...{ kpenter: 'NumpadEnter', kpdivide: 'NumpadDivide', kpmultiply: 'NumpadMultiply', kpadd: 'NumpadAdd' },
  ...{ kpsubtract: 'NumpadSubtract', kpdecimal: 'NumpadDecimal', kp0: 'Numpad0', kp1: 'Numpad1', kp2: 'Numpad2' },
  ...{ kp3: 'Numpad3', kp4: 'Numpad4', kp5: 'Numpad5', kp6: 'Numpad6', kp7: 'Numpad7', kp8: 'Numpad8', kp9: 'Numpad9' },
  ...{
    volumeup: 'AudioVolumeUp',
    volumedown: 'AudioVolumeDown',
    mute: 'AudioVolumeMute',
    volumemute: 'AudioVolumeMute',
  },
  ...{
    xf86audioraisevolume: 'AudioVolumeUp',
    xf86audiolowervolume: 'AudioVolumeDown',
    xf86audiomute: 'AudioVolumeMute',
  },
  ...{
    xf86back: 'BrowserBack',
    xf86forward: 'BrowserForward',
    xf86reload: 'BrowserRefresh',
    playpause: 'MediaPlayPause',
  },
  ...{ plus: '+', minus: '-', equal: '=', equals: '=', comma: ',', period: '.', dot: '.', slash: '/', backslash: '\\' },
  ...{ semicolon: ';', colon: ':', apostrophe: "'", quotedbl: '"', grave: '`', backquote: '`', quote: "'" },
  ...{ bracketleft: '[', bracketright: ']', braceleft: '{', braceright: '}', parenleft: '(', parenright: ')' },
  ...{ less: '<', greater: '>', question: '?', exclam: '!', at: '@', numbersign: '#', dollar: '$', percent: '%' },
  ...{ asciicircum: '^', ampersand: '&', asterisk: '*', underscore: '_', bar: '|', asciitilde: '~', tilde: '~' },
}

/** A key: one by its name, or one that types a character on the desktop's layout. */
export type Key = { name: NamedKey } | { char: string }

/** The key that a name means; undefined if it means none. Names do not depend on case, single characters do. */
export function keyNamed(given: string): Key | undefined {
  if (given === ' ') return { name: 'Space' }
  if ([...given].length === 1) return /\p{C}/u.test(given) ? undefined : { char: given.normalize('NFC') }
  const plain = given.toLowerCase()
  const name = names.get(plain)
  if (name) return { name }
  const flat = plain.replaceAll(/[_\s-]/g, '')
  const known = names.get(flat) ?? aliases[flat] ?? letterOf(given)
  if (known === undefined) return undefined
  return known in keyCodes ? { name: known as NamedKey } : { char: known }
}

/** `KeyA` and `Digit1` are W3C's names of places on an American keyboard. */
const letterOf = (given: string): string | undefined =>
  /^(?:key([a-z])|digit([0-9]))$/i.exec(given)?.slice(1).join('').toLowerCase() || undefined

/** The sentence of a 400 for a name that means no key. */
export function whyNoKey(given: string): string {
  const parts = given.split('+', 9)
  if (parts.length > 1 && parts.length <= 8 && parts.every((part) => keyNamed(part)))
    return `"${given.slice(0, 40)}" is several keys; write each by itself: ${parts.map((part) => `"${part}"`).join(', ')}`
  const known = new Map([...names, ...Object.entries(aliases)].filter(([, name]) => name in keyCodes))
  const meant = nearest(given, known.keys()).map((name) => known.get(name)!)
  return `"${given.slice(0, 40)}" is not the name of a key${suggestion(meant)}`
}
