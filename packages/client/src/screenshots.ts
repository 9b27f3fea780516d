// Pictures of a screen, with the facts in their headers.
import type { PictureFormat, Region } from '@dormouse/contract'
import { readers } from './bodies.ts'
import type { CallOptions, Http } from './http.ts'
import { path } from './path.ts'

export interface ScreenshotQuery {
  /** Only this part, in pixels of the screen. */
  region?: Region
  /** The longer side has at most this many pixels. */
  fit?: number
  /** `png` by default. */
  format?: PictureFormat
  /** Only for `jpeg`: 1 to 100; 80 by default. */
  quality?: number
  /** `changed`: as soon as the screen shows something else. `settled`: as soon as it is quiet. */
  wait?: 'settled' | 'changed'
  /** The `sequence` of an earlier picture or result: `wait` begins with a change from it. */
  after?: string
  /** How long nothing changes on a settled screen; 300 by default. */
  quietMs?: number
  /** The picture comes at the latest then; 5,000 by default. */
  maxMs?: number
}

export interface Screenshot {
  mimeType: string
  bytes: Uint8Array<ArrayBuffer>
  /** The size of the whole screen. */
  width: number
  height: number
  /** Another one when the screen shows something else. */
  sequence: string
  /** With `wait`: whether the screen has changed meanwhile. */
  changed?: boolean
  /** If `wait` is `settled`: whether the screen was quiet in time. */
  settled?: boolean
}

const slackMs = 30_000
const defaultMaxMs = 5_000

export async function takeScreenshot(
  http: Http,
  id: string,
  { region, quietMs, maxMs, ...query }: ScreenshotQuery,
  call: CallOptions,
): Promise<Screenshot> {
  return http.run(
    {
      ...call,
      limitMs: (query.wait ? (maxMs ?? defaultMaxMs) : 0) + slackMs,
      method: 'GET',
      path: path`/v1/desktops/${id}/screenshot`,
      query: {
        ...query,
        // Without any query the answer has no sequence.
        format: query.format ?? 'png',
        region: region && [region.x, region.y, region.width, region.height].join(','),
        quiet_ms: quietMs,
        max_ms: maxMs,
      },
    },
    async (response) => {
      const of = (name: string) => response.headers.get(`dormouse-screen-${name}`)
      const [width, height] = (of('size') ?? '').split('x').map(Number)
      const [changed, settled] = [of('changed'), of('settled')]
      return {
        mimeType: response.headers.get('content-type') ?? '',
        bytes: await readers.bytes(response),
        ...{ width: width!, height: height!, sequence: of('sequence') ?? '' },
        ...(changed !== null && { changed: changed === 'true' }),
        ...(settled !== null && { settled: settled === 'true' }),
      }
    },
  )
}
