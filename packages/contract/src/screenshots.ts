// The screen of an awake desktop for programs: what it is now, and how a query requests a screenshot.
import { z } from 'zod'
import {
  pictureFormat,
  region,
  requireJpegForQuality,
  screenSequence,
  screenSideMax,
  settleMaxMs,
  settleQuietMs,
} from './input.ts'

/** A whole number of a query. */
const whole = (min: number, max: number) =>
  z
    .string()
    .regex(/^\d{1,9}$/, `must be a whole number from ${min} to ${max}`)
    .transform(Number)
    .pipe(z.int().min(min, `must be ${min} or more`).max(max, `must be ${max} or less`))
    .optional()
    .meta({ type: 'integer', minimum: min, maximum: max })

const regionOfQuery = z
  .string()
  .regex(/^\d{1,5}(,\d{1,5}){3}$/, 'must be `x,y,width,height` in pixels, such as 0,0,640,400')
  .transform((text) => {
    const [x, y, width, height] = text.split(',').map(Number)
    return { x: x!, y: y!, width: width!, height: height! }
  })
  .pipe(region)

/** Without any of these the answer is the screen as it is now, as PNG. */
export const screenshotQuery = z
  .object({
    region: regionOfQuery
      .optional()
      .meta({ type: 'string', pattern: '^\\d{1,5}(,\\d{1,5}){3}$' })
      .describe('Only this part: `x,y,width,height`, in pixels of the screen; 400 where it goes beyond its edge'),
    fit: whole(16, screenSideMax).describe('The longer side has at most so many pixels'),
    format: pictureFormat.optional().describe('Default `png`'),
    quality: whole(1, 100).describe('Of `jpeg`; default 80'),
    wait: z
      .enum(['settled', 'changed'])
      .optional()
      .describe(
        '`changed`: as soon as the screen shows something else. `settled`: as soon as nothing larger than a caret has changed for `quiet_ms`. Either way the picture comes after `max_ms` at the latest',
      ),
    after: screenSequence
      .min(1)
      .optional()
      .describe('The `dormouse-screen-sequence` that the caller has seen: `wait` begins with a change from it'),
    quiet_ms: whole(50, 5_000).describe(`Default ${settleQuietMs}`),
    max_ms: whole(50, 30_000).describe(`Default ${settleMaxMs}`),
  })
  .superRefine(requireJpegForQuality)
  .superRefine((query, { addIssue }) => {
    const waits = ['after', 'quiet_ms', 'max_ms'] as const
    const alone = waits.find((name) => query[name] !== undefined && query.wait === undefined)
    if (alone) addIssue({ code: 'custom', path: [alone], message: 'is a part of `wait`; send `wait`, or leave it out' })
  })
export type ScreenshotQuery = z.infer<typeof screenshotQuery>

export const screenJson = z
  .object({
    width: z.int(),
    height: z.int(),
    sequence: screenSequence,
    pointer: z
      .object({ x: z.int(), y: z.int() })
      .nullable()
      .describe('Where input has put it; null where none did since the host’s agent started'),
    claim: z
      .object({
        holder: z.string(),
        since: z.iso.datetime().nullable(),
        until: z.iso.datetime().describe('At least'),
        human_active: z.boolean().describe('A person used the screen in the last 15 s'),
      })
      .nullable()
      .describe('Of `control`; null where it is free'),
  })
  .meta({
    id: 'Screen',
    examples: [
      {
        width: 1280,
        height: 800,
        sequence: '9f86d081884c7d65',
        pointer: { x: 512, y: 300 },
        claim: null,
      },
    ],
  })
export type ScreenJson = z.infer<typeof screenJson>
