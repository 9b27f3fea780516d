// The frame of a plot: an SVG that is legible in light and in dark. Pure; knows no figures.

export const width = 760
const margin = 24

/** The classes of marks: `ours`, `before`, `goal`, `grid`; of text: `title`, `muted`, `label`, `value`. */
const style = `
  text { font: 13px system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; fill: #1f2328 }
  .title { font-size: 16px; font-weight: 600 }
  .muted { fill: #59636e; font-size: 12px }
  .value { font-weight: 600; font-variant-numeric: tabular-nums }
  .ours { fill: #0969da; stroke: #0969da }
  .before { fill: #8c959f; stroke: #8c959f }
  .bar { stroke: none }
  .line { fill: none !important; stroke-width: 2.5; stroke-linejoin: round }
  .spread { stroke: #1f2328; stroke-width: 1.2 }
  .goal { stroke: #1a7f37; stroke-width: 2; stroke-dasharray: 4 3; fill: none }
  .goal-text { fill: #1a7f37; font-size: 12px }
  .grid { stroke: #d1d9e0; stroke-width: 1 }
  @media (prefers-color-scheme: dark) {
    text { fill: #f0f6fc }
    .muted { fill: #9198a1 }
    .ours { fill: #4493f8; stroke: #4493f8 }
    .before { fill: #656c76; stroke: #656c76 }
    .spread { stroke: #f0f6fc }
    .goal { stroke: #3fb950 }
    .goal-text { fill: #3fb950 }
    .grid { stroke: #3d444d }
  }`

export interface Frame {
  title: string
  /** What is shown, and what the marks mean; one line each. */
  notes: readonly string[]
  height: number
  /** Drawn below the title; its origin is the top left corner of the space for it. */
  body: string
}

/** Where the body may begin and end, sideways. */
export const inner = { left: margin, right: width - margin }

const firstNote = 51
const noteHeight = 18

export function svg({ title, notes, height, body }: Frame): string {
  const top = firstNote + notes.length * noteHeight + 6
  const all = top + height + margin
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${all}" role="img" aria-label="${escaped(title)}">
<style>${style}
</style>
${text(margin, 30, title, 'title')}
${notes.map((note, at) => text(margin, firstNote + at * noteHeight, note, 'muted')).join('\n')}
<g transform="translate(0 ${top})">
${body}
</g>
</svg>
`
}

export function text(
  x: number,
  y: number,
  words: string,
  kind = 'label',
  anchor: 'start' | 'middle' | 'end' = 'start',
) {
  const side = anchor === 'start' ? '' : ` text-anchor="${anchor}"`
  return `<text x="${at(x)}" y="${at(y)}" class="${kind}"${side}>${escaped(words)}</text>`
}

export const line = (x1: number, y1: number, x2: number, y2: number, kind: string): string =>
  `<line x1="${at(x1)}" y1="${at(y1)}" x2="${at(x2)}" y2="${at(y2)}" class="${kind}"/>`

export const rect = (x: number, y: number, w: number, h: number, kind: string): string =>
  `<rect x="${at(x)}" y="${at(y)}" width="${at(w)}" height="${at(h)}" rx="2" class="${kind}"/>`

export const circle = (x: number, y: number, kind: string): string =>
  `<circle cx="${at(x)}" cy="${at(y)}" r="3.5" class="${kind}"/>`

export const path = (points: readonly [number, number][], kind: string): string =>
  `<path d="M${points.map(([x, y]) => `${at(x)} ${at(y)}`).join(' L')}" class="${kind}"/>`

const at = (value: number): string => String(Math.round(value * 10) / 10)
const escaped = (words: string): string =>
  words.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;')
