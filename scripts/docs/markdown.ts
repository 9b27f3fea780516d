// The little Markdown that generated pages need. Pure.

/** The first lines of every generated page. */
export const head = (title: string, from: string): string =>
  `<!-- Made by \`npm run docs\` from ${from}. Do not edit: a test compares it. -->\n\n# ${title}\n`

/** A table; a bar or a line break in a cell does not break it. */
export function table(titles: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) => `| ${cells.map(cell).join(' | ')} |`
  return [line(titles), line(titles.map(() => '---')), ...rows.map(line)].join('\n')
}

const cell = (text: string): string => text.replaceAll('|', '\\|').replaceAll(/\s*\n\s*/g, ' ')

export const code = (text: string): string => `\`${text}\``
