// Words of a shell command. What comes from elsewhere reaches a remote shell only through these.

/** Any text as one word of a POSIX shell. */
export function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}

/** A command line that runs the script with these as `$1`, `$2`, and so on, whatever they contain. */
export function commandLine(script: string, args: readonly string[]): string {
  return [
    'env',
    'LC_ALL=C',
    'PATH=/usr/sbin:/usr/bin:/sbin:/bin',
    'sh',
    '-c',
    quote(script),
    'sh',
    ...args.map(quote),
  ].join(' ')
}
