// Which keys type a character, by keyboard layout. Pure. The layouts are those of XKB and the Linux console.

/** Scancodes of the keys that type, row by row; 0x56 is the key beside the left Shift that American keyboards lack. */
const rows = [
  [0x29, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d],
  [0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b],
  [0x1e, 0x1f, 0x20, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26, 0x27, 0x28, 0x2b],
  [0x56, 0x2c, 0x2d, 0x2e, 0x2f, 0x30, 0x31, 0x32, 0x33, 0x34, 0x35],
] as const

export type Modifier = 'shift' | 'altGr'

/** One press of a key, with modifiers. */
export interface Stroke {
  code: number
  with: readonly Modifier[]
}

interface Table {
  /** Four rows each; a space stands for a key that types nothing. */
  plain: readonly string[]
  shift: readonly string[]
  altGr?: readonly string[]
  /** Keys that wait for the next one, and the accent that they put on it. */
  dead?: Readonly<Record<string, string>>
}

const us: Table = {
  plain: ['`1234567890-=', 'qwertyuiop[]', "asdfghjkl;'\\", ' zxcvbnm,./'],
  shift: ['~!@#$%^&*()_+', 'QWERTYUIOP{}', 'ASDFGHJKL:"|', ' ZXCVBNM<>?'],
}

const german: Table = {
  plain: ['^1234567890ß´', 'qwertzuiopü+', 'asdfghjklöä#', '<yxcvbnm,.-'],
  shift: ['°!"§$%&/()=?`', 'QWERTZUIOPÜ*', "ASDFGHJKLÖÄ'", '>YXCVBNM;:_'],
  altGr: ['  ²³   {[]}\\ ', '@ €        ~', '            ', '|      µ   '],
}

const tables = {
  us,
  gb: {
    plain: ['`1234567890-=', 'qwertyuiop[]', "asdfghjkl;'#", '\\zxcvbnm,./'],
    shift: ['¬!"£$%^&*()_+', 'QWERTYUIOP{}', 'ASDFGHJKL:@~', '|ZXCVBNM<>?'],
    altGr: ['    €        ', '            ', '            ', '           '],
  },
  de: { ...german, dead: { '^': '\u0302', '´': '\u0301', '`': '\u0300' } },
  'de-nodeadkeys': german,
} as const satisfies Record<string, Table>

export const layoutNames = Object.keys(tables)

/** For each character the keys that type it, one after the other. */
export type Layout = ReadonlyMap<string, readonly Stroke[]>

const made = new Map<string, Layout>()

/** An unknown layout has only Space, Enter and Tab: a wrong character would be worse than a refusal. */
export function layoutNamed(name: string): Layout {
  const known: Record<string, Table> = tables
  const layout = made.get(name) ?? layoutOf(known[name] ?? { plain: [], shift: [] })
  made.set(name, layout)
  return layout
}

const space: Stroke = { code: 0x39, with: [] }

function layoutOf({ plain, shift, altGr = [], dead = {} }: Table): Layout {
  const single = new Map<string, Stroke>([
    ...level(altGr, ['altGr']),
    ...level(shift, ['shift']),
    ...level(plain, []),
    [' ', space],
    ['\n', { code: 0x1c, with: [] }],
    ['\t', { code: 0x0f, with: [] }],
  ])
  const layout = new Map<string, Stroke[]>()
  for (const [char, stroke] of single) layout.set(char, char in dead ? [stroke, space] : [stroke])
  for (const [char, accent] of Object.entries(dead)) {
    for (const letter of 'aeiouyAEIOUY') {
      const whole = `${letter}${accent}`.normalize('NFC')
      if (whole.length === 1 && isLatin1(whole)) layout.set(whole, [single.get(char)!, single.get(letter)!])
    }
  }
  return layout
}

/** The Linux console composes no others. */
const isLatin1 = (char: string): boolean => char.charCodeAt(0) < 256

const level = (texts: readonly string[], modifiers: readonly Modifier[]): [string, Stroke][] =>
  texts.flatMap((text, row) =>
    [...text].flatMap((char, column): [string, Stroke][] =>
      char === ' ' ? [] : [[char, { code: rows[row]![column]!, with: modifiers }]],
    ),
  )

/** The text as characters that a layout may have: composed, and with one newline at each end of a line. */
export const charactersOf = (text: string): string[] => [...text.replaceAll(/\r\n?/g, '\n').normalize('NFC')]
