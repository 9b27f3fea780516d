// Input to an awake desktop by a program: the actions of a batch, what is done with the screen then, and the outcome.
import { z } from 'zod'
import { keyNamed, whyNoKey } from './keys.ts'

/** A batch has at most this many actions, and takes at most this long without what it waits for at the end. */
export const inputActionsMax = 100
export const inputMaxMs = 60_000
export const inputTextMaxChars = 10_000
export const inputPaceMs = 20
export const settleQuietMs = 300
export const settleMaxMs = 5_000
/** No screen is larger. */
export const screenSideMax = 16_384

/** Pictures and input are for screens of at most this many pixels: 5120 × 2160. QEMU's server shows no more. */
export const screenPixelsMax = 11_059_200

/** A larger JPEG is made smaller: this is a screen of 3840 × 2160. */
export const jpegMaxPixels = 8_294_400
export const jpegQuality = 80

export const pictureFormat = z.enum(['png', 'jpeg'])
export type PictureFormat = z.infer<typeof pictureFormat>
export const pictureMimeType = { png: 'image/png', jpeg: 'image/jpeg' } as const satisfies Record<PictureFormat, string>

const coordinate = z.int().min(0).max(65_535)
const point = z.strictObject({ x: coordinate, y: coordinate })
export type Point = z.infer<typeof point>

const key = z.string().superRefine((given, { addIssue }) => {
  if (!keyNamed(given)) addIssue({ code: 'custom', message: whyNoKey(given) })
})
const keys = z
  .array(key)
  .min(1)
  .max(8)
  .describe('W3C `KeyboardEvent.key` names, or single characters; pressed in this order, released in the opposite one')
const hold = keys.optional().describe('Keys that are held meanwhile')

const pressed = z.enum(['left', 'middle', 'right'])
const clicked = z.enum(['left', 'middle', 'right', 'back', 'forward'])
/** If it is omitted, the pointer stays where it is. */
const at = { x: coordinate.optional(), y: coordinate.optional() }
const ms = z.int().min(0).max(inputMaxMs)
const ticks = z.int().min(-100).max(100)

const actions = [
  z.strictObject({ type: z.literal('move'), x: coordinate, y: coordinate, hold }),
  z.strictObject({
    type: z.literal('click'),
    ...at,
    button: clicked.optional().describe('Default `left`'),
    count: z.int().min(1).max(5).optional().describe('2 is a double click'),
    hold,
  }),
  z.strictObject({ type: z.literal('down'), ...at, button: pressed.optional() }),
  z.strictObject({ type: z.literal('up'), ...at, button: pressed.optional() }),
  z.strictObject({
    type: z.literal('drag'),
    path: z.array(point).min(2).max(100),
    button: pressed.optional(),
    hold,
  }),
  z.strictObject({
    type: z.literal('scroll'),
    ...at,
    dx: ticks.optional().describe('Ticks of the wheel to the right'),
    dy: ticks.optional().describe('Ticks of the wheel down'),
    hold,
  }),
  z.strictObject({
    type: z.literal('type'),
    text: z.string().max(inputTextMaxChars),
    via: z
      .enum(['auto', 'keys', 'clipboard'])
      .optional()
      .describe(
        '`auto`: keys; where a character is on no key, all between two line ends or tabs is pasted. `failed` where no program asks for the pasted text',
      ),
    paste: keys.optional().describe('The keys that paste; default `Control`, `v`'),
  }),
  z.strictObject({ type: z.literal('key'), keys, count: z.int().min(1).max(100).optional() }),
  z.strictObject({ type: z.literal('hold'), keys, ms }),
  z.strictObject({ type: z.literal('wait'), ms }),
  z.strictObject({ type: z.literal('screenshot') }),
] as const

export const inputAction = z
  .discriminatedUnion('type', actions, {
    error: ({ code }) =>
      code === 'invalid_union'
        ? 'must be move, click, down, up, drag, scroll, type, key, hold, wait or screenshot'
        : undefined,
  })
  .superRefine((action, { addIssue }) => {
    if (!('x' in action || 'y' in action)) return
    const { x, y } = action as Partial<Point>
    if ((x === undefined) !== (y === undefined))
      addIssue({ code: 'custom', path: [x === undefined ? 'x' : 'y'], message: 'is missing; give x and y, or neither' })
  })
export type InputAction = z.infer<typeof inputAction>

const size = z.strictObject({ width: z.int().min(1).max(65_535), height: z.int().min(1).max(65_535) })
export type Size = z.infer<typeof size>

export const region = z.strictObject({
  x: coordinate,
  y: coordinate,
  width: z.int().min(1).max(screenSideMax),
  height: z.int().min(1).max(screenSideMax),
})
export type Region = z.infer<typeof region>

export const goesBeyond = ({ x, y, width, height }: Region, screen: Size): boolean =>
  x + width > screen.width || y + height > screen.height

/** Better refused than ignored. */
export function requireJpegForQuality(
  { format, quality }: { format?: PictureFormat | undefined; quality?: number | undefined },
  { addIssue }: z.core.$RefinementCtx,
): void {
  if (quality !== undefined && format !== 'jpeg')
    addIssue({ code: 'custom', path: ['quality'], message: 'is of `format` `jpeg` only; send that, or leave it out' })
}

/** How a picture of the screen is made. */
export const pictureSpec = z
  .strictObject({
    region: region.optional().describe('Only this part, in pixels of the screen; 400 where it goes beyond its edge'),
    fit: z.int().min(16).max(screenSideMax).optional().describe('The longer side has at most so many pixels'),
    format: pictureFormat.optional().describe('Default `png`'),
    quality: z.int().min(1).max(100).optional().describe(`Of \`jpeg\`; default ${jpegQuality}`),
  })
  .superRefine(requireJpegForQuality)
export type PictureSpec = z.infer<typeof pictureSpec>

export const settleSpec = z.strictObject({
  quiet_ms: z.int().min(50).max(5_000).optional().describe(`Default ${settleQuietMs}`),
  max_ms: z.int().min(50).max(30_000).optional().describe(`Default ${settleMaxMs}`),
})
export type SettleSpec = z.infer<typeof settleSpec>

export const inputBody = z
  .strictObject({
    actions: z.array(inputAction).min(1).max(inputActionsMax),
    space: size
      .nullish()
      .describe('The coordinates are pixels of a picture of this size; default: of the screen itself'),
    expected_screen: size.nullish().describe('409 `screen_changed` where the screen has another size'),
    pace_ms: z.int().min(2).max(500).nullish().describe(`Between two events; default ${inputPaceMs}`),
    settle: settleSpec
      .nullish()
      .describe(
        'Then wait until the screen has changed and been quiet; the caret does not count. For longer where only the pointer has moved',
      ),
    screenshot: pictureSpec.nullish().describe('Then take a picture'),
    expected_generation: z.int().min(0).nullish().describe('409 `stale_generation` where the desktop is on another'),
    takeover: z.boolean().nullish().describe('Take the claim `control` from its holder'),
  })
  .superRefine(({ actions: given }, { addIssue }) => {
    const shot = given.findIndex(({ type }) => type === 'screenshot')
    if (shot >= 0 && shot < given.length - 1)
      addIssue({ code: 'custom', path: ['actions', shot, 'type'], message: 'screenshot must be the last action' })
  })
  .meta({
    id: 'InputBody',
    examples: [
      {
        actions: [
          { type: 'click', x: 512, y: 300 },
          { type: 'type', text: 'Hello' },
          { type: 'key', keys: ['Control', 's'] },
        ],
        settle: { quiet_ms: 300, max_ms: 5_000 },
        screenshot: { fit: 1_568 },
      },
    ],
  })
export type InputBody = z.infer<typeof inputBody>

/**
 * `interrupted`: another client took the claim, or the desktop was about to hibernate or move. `unknown`: what was done is not
 * known, and it is not done again.
 */
export const inputOutcome = z.enum(['done', 'failed', 'interrupted', 'unknown'])
export type InputOutcome = z.infer<typeof inputOutcome>

export const screenSize = z.object({ width: z.int(), height: z.int() })
export const screenSequence = z.string().max(64).describe('Another one when the screen shows something else')

export const pictureJson = z
  .object({
    mime_type: z.enum(['image/png', 'image/jpeg']),
    data: z.string().describe('Base64'),
  })
  .meta({ id: 'Picture' })

export const inputJson = z
  .object({
    performed: z.int().nullable().describe('How many actions were done whole; null where that is not known'),
    outcome: inputOutcome,
    reason: z.string().nullable().describe('Why the outcome is not `done`'),
    screen: screenSize.extend({ sequence: screenSequence }).nullable(),
    pointer: z.object({ x: z.int(), y: z.int() }).nullable().describe('In pixels of the screen'),
    settled: z.boolean().nullable().describe('Whether the screen was quiet in time; null where that was not asked'),
    changed: z.boolean().nullable().describe('Whether the screen changed after the first action'),
    settle_ms: z.int().nullable(),
    screenshot: pictureJson.nullable().describe('Null where none was asked, and in a replayed response'),
  })
  .meta({
    id: 'InputResult',
    examples: [
      {
        performed: 3,
        outcome: 'done',
        reason: null,
        screen: { width: 1280, height: 800, sequence: '9f86d081884c7d65' },
        pointer: { x: 512, y: 300 },
        settled: true,
        changed: true,
        settle_ms: 420,
        screenshot: null,
      },
    ],
  })
export type InputJson = z.infer<typeof inputJson>
