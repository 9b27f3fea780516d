// Tools for the screen of an awake desktop.
import type { InputAction, InputJson } from '@dormouse/client'
import { inputActionsMax } from '@dormouse/contract'
import { z } from 'zod'
import { tool } from '../tool.ts'
import { readActions } from './actions.ts'

const region = z
  .strictObject({ x: z.int(), y: z.int(), width: z.int(), height: z.int() })
  .optional()
  .describe('Show only this part of the screen, at full size')

export const seeScreen = tool({
  name: 'desktop_screen',
  title: 'Look at the screen',
  description: 'Takes a picture of the screen of an awake desktop.',
  grant: 'see',
  needs: 'use',
  onDesktop: true,
  needsAwake: true,
  idempotent: true,
  input: { region },
  output: { width: z.int(), height: z.int() },
  run: async ({ desktop_id: id, region }, { client, signal }) => {
    const { mimeType, bytes, width, height } = await client.takeScreenshot(id, { region }, { signal })
    return {
      text: `The screen is ${width} × ${height} pixels.`,
      data: { width, height },
      pictures: [{ mimeType, data: bytes }],
    }
  },
})

const keys = z.array(z.string())
const place = z.strictObject({ x: z.int(), y: z.int() })

/** One shape for all: strict modes take no choice of shapes. The service checks what belongs to which type. */
const action = z.strictObject({
  type: z.enum(['move', 'click', 'down', 'up', 'drag', 'scroll', 'type', 'key', 'hold', 'wait', 'screenshot']),
  x: z.int().optional().describe('Where; without x and y, where the pointer is'),
  y: z.int().optional(),
  button: z
    .enum(['left', 'middle', 'right', 'back', 'forward'])
    .optional()
    .describe('Of click, down, up and drag; left'),
  count: z.int().optional().describe('How often: of click, 2 is a double click; of key'),
  path: z.array(place).optional().describe('Of drag: at least two places'),
  dx: z.int().optional().describe('Of scroll: ticks of the wheel to the right'),
  dy: z.int().optional().describe('Of scroll: ticks of the wheel down'),
  text: z.string().optional().describe('Of type'),
  via: z.enum(['auto', 'keys', 'clipboard']).optional().describe('Of type: how the text comes in; auto'),
  paste: keys.optional().describe('Of type by the clipboard: the keys that paste'),
  keys: keys.optional().describe('Of key and hold: pressed together, such as ["ctrl", "c"]'),
  hold: keys.optional().describe('Of move, click, drag and scroll: keys that are held meanwhile'),
  ms: z.int().optional().describe('Of wait and hold'),
})

export const act = tool({
  name: 'desktop_act',
  title: 'Use mouse and keyboard',
  description:
    'Does some actions with mouse and keyboard in an awake desktop, one after the other, waits until the screen is quiet, and returns a picture of it. Coordinates are pixels of the picture. Actions as the computer tools of Anthropic and OpenAI have them are taken too, such as left_click with coordinate, or key with text "ctrl+c".',
  grant: 'use',
  onDesktop: true,
  needsAwake: true,
  idempotent: false,
  input: {
    actions: z.array(action).min(1).max(inputActionsMax),
    takeover: z.boolean().default(false).describe('Take mouse and keyboard from whoever controls the screen'),
    region,
  },
  prepare: ({ desktop_id, takeover, actions, ...single }) => ({
    ...(desktop_id !== undefined && { desktop_id }),
    ...(takeover !== undefined && { takeover }),
    // A call may also be one action.
    ...(actions === undefined ? one(single) : { ...readActions(actions), ...single }),
  }),
  output: {
    outcome: z.enum(['done', 'failed', 'interrupted', 'unknown']),
    performed: z.int().optional(),
    reason: z.string().optional(),
    settled: z.boolean().optional(),
    width: z.int().optional(),
    height: z.int().optional(),
    pointer: place.optional(),
  },
  run: async ({ desktop_id: id, actions: given, takeover, region }, { client, signal }) => {
    const actions = given as InputAction[]
    const screenshotWanted = region ? { region } : {}
    const done = await client.sendInput(id, { actions, takeover, settle: {}, screenshot: screenshotWanted }, { signal })
    const { screenshot } = done
    const pictures = screenshot && [{ mimeType: screenshot.mime_type, data: Buffer.from(screenshot.data, 'base64') }]
    return { text: outcomeOf(done, actions.length), data: dataOf(done), ...(pictures && { pictures }) }
  },
})

const one = (single: Record<string, unknown>) => ('type' in single || 'action' in single ? readActions(single) : single)

const dataOf = ({ outcome, performed, reason, settled, screen, pointer }: InputJson) => ({
  outcome,
  ...(performed !== null && { performed }),
  ...(reason !== null && { reason }),
  ...(settled !== null && { settled }),
  ...(screen && { width: screen.width, height: screen.height }),
  ...(pointer && { pointer }),
})

/** What was done. A batch whose outcome is unknown is never repeated by itself: the picture shows what to do. */
function outcomeOf({ outcome, performed, reason, settled, screen, screenshot }: InputJson, count: number): string {
  const did =
    performed === null ? 'it is not known how many actions were done' : `${performed} of ${count} actions done`
  return [
    outcome === 'done' ? did : `${outcome}: ${did}${reason ? `; ${reason}` : ''}`,
    settled === false ? 'the screen still changes' : '',
    screen ? `the screen is ${screen.width} × ${screen.height} pixels` : '',
    screenshot ? '' : 'call desktop_screen for a picture',
  ]
    .filter(Boolean)
    .join('; ')
}
