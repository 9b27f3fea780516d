// The clipboard of an awake desktop for programs: text only.
import { z } from 'zod'
import { id } from './ids.ts'

/** As UTF-8. */
export const clipboardMaxBytes = 262_144

const tooLong = `must be at most ${clipboardMaxBytes} bytes as UTF-8; write a longer text to a file`

export const clipboardBody = z
  .strictObject({
    text: z
      .string()
      .min(1)
      // Before its bytes are counted.
      .max(clipboardMaxBytes, tooLong)
      .refine((text) => new TextEncoder().encode(text).length <= clipboardMaxBytes, tooLong)
      .refine((text) => !text.includes('\0'), 'must have no NUL character; leave it out'),
    takeover: z.boolean().nullish().describe('Take the claim `control` from its holder'),
  })
  .meta({ id: 'ClipboardBody', examples: [{ text: 'Grüße' }] })
export type ClipboardBody = z.infer<typeof clipboardBody>

export const clipboardJson = z
  .object({
    text: z
      .string()
      .nullable()
      .describe(
        'Null where no text was copied since the service follows the clipboard: from its first use, or the first input',
      ),
    truncated: z.boolean().describe(`Whether the text is longer; the first ${clipboardMaxBytes} bytes are here`),
  })
  .meta({ id: 'Clipboard', examples: [{ text: 'Grüße', truncated: false }] })
export type ClipboardJson = z.infer<typeof clipboardJson>

export const clipboardSetJson = z
  .object({ bytes: z.int().describe('Of the text, as UTF-8') })
  .meta({ id: 'ClipboardSet', examples: [{ bytes: 7 }] })
export type ClipboardSetJson = z.infer<typeof clipboardSetJson>

const target = z.object({ desktopId: id, generation: z.int() })
const text = z.string().max(clipboardMaxBytes)

export const clipboardCommands = {
  /** What was copied last, in the guest or by `clipboard.write`. */
  'clipboard.read': {
    payload: target,
    result: z.object({ text: text.nullable(), truncated: z.boolean() }),
  },
  /** The guest's programs paste this text from now on, until something else is copied or the desktop sleeps. */
  'clipboard.write': { payload: target.extend({ text }), result: z.object({}) },
} as const
