// Texts that programs type, and that must arrive whole on every layout.

const line = (n: number) => `\tif (list[${n}] <= Limit_${n} && !isDone) {\n\t\tcall("$x~${n}", '^\\\\n');\n\t}\n`

const code = Array.from({ length: 40 }, (_, n) => line(n))
  .join('')
  .slice(0, 2_000)

export const texts: [what: string, text: string][] = [
  ['signs that need Shift', 'Hello_World-42 (a>b) & {x|y} #~$'],
  ['capitals', 'FOO'],
  ['capitals again', 'FOO'],
  ['characters that no key has', 'Grüße Ř €'],
  ['several lines of them', 'Grüße\n\tŘ und €\n日本'],
  ['2,000 characters of code with tabs', code],
]
