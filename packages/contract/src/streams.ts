// The claim on a desktop's screen, and the URLs that show it.
import { z } from 'zod'

export const streamClaim = z.enum(['view', 'control'])
export type StreamClaim = z.infer<typeof streamClaim>

export const streamBody = z
  .object({
    claim: streamClaim.describe('`view` only sees; `control` also types and points'),
    takeover: z.boolean().nullish().describe('Take the claim from its holder, and close the holder’s socket'),
  })
  .meta({ id: 'StreamBody', examples: [{ claim: 'view' }] })
export type StreamBody = z.infer<typeof streamBody>

export const streamJson = z
  .object({
    url: z.string().describe('A page that shows the desktop in any browser; opens once, until `expires_at`'),
    websocket_url: z.string().describe('The same screen for programs: RFB over a WebSocket, in binary frames'),
    expires_at: z.string().describe('When the URL expires'),
    claim: streamClaim,
  })
  .meta({
    id: 'Stream',
    examples: [
      {
        url: 'https://dormouse.example.com/screen#q3J0V2xkUk1nYzVhZ1Q',
        websocket_url: 'wss://dormouse.example.com/screens/q3J0V2xkUk1nYzVhZ1Q',
        expires_at: '2026-01-01T12:01:00.000Z',
        claim: 'view',
      },
    ],
  })
export type StreamJson = z.infer<typeof streamJson>
