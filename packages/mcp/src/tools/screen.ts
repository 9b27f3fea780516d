// Tools for the screen of an awake desktop.
import type { InputJson } from '@dormouse/client'
import { inputAction, inputActionsMax } from '@dormouse/contract'
import { z } from 'zod'
import { tool } from '../tool.ts'

export const seeScreen = tool({
  name: 'desktop_screen',
  title: 'Look at the screen',
  description: 'Takes a picture of the screen of an awake desktop.',
  grant: 'see',
  onDesktop: true,
  idempotent: true,
  input: {},
  run: async ({ desktop_id: id }, { client, signal }) => {
    const data = await client.screenshot(id, { signal })
    // A PNG has its width and height at a fixed place.
    const view = new DataView(data.buffer, data.byteOffset, data.byteLength)
    const [width, height] = [view.getUint32(16), view.getUint32(20)]
    return { text: `The screen is ${width} × ${height} pixels.`, pictures: [{ mimeType: 'image/png', data }] }
  },
})

export const act = tool({
  name: 'desktop_act',
  title: 'Use mouse and keyboard',
  description:
    'Does some actions with mouse and keyboard in an awake desktop, one after the other, waits until the screen is quiet, and returns a picture of it. Coordinates are pixels of the picture.',
  grant: 'use',
  onDesktop: true,
  idempotent: false,
  input: {
    actions: z.array(inputAction).min(1).max(inputActionsMax),
    takeover: z.boolean().default(false).describe('Take mouse and keyboard from whoever controls the screen'),
  },
  run: async ({ desktop_id: id, actions, takeover }, { client, signal }) => {
    const done = await client.sendInput(id, { actions, takeover, settle: {}, screenshot: {} }, { signal })
    const { screenshot } = done
    const pictures = screenshot && [{ mimeType: screenshot.mime_type, data: Buffer.from(screenshot.data, 'base64') }]
    return { text: outcomeOf(done, actions.length), ...(pictures && { pictures }) }
  },
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
