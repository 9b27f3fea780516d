// Tools for the screen of an awake desktop.
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
