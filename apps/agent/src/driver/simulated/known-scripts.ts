// Scripts of the host's that a simulated guest knows by their first line. It does not run them.

/** What the script prints that makes a guest nobody's; undefined if the command is another one. */
export const sealing = (command: string | string[]): string | undefined =>
  begins(command, '# seal a template') ? sealedGuest : undefined

/** Whether the command is the script that brings in our program. */
export const bringsIn = (command: string | string[]): boolean => begins(command, '# bring in the program')

/** Whether the command is the script by which a guest requests its address. */
export const asksForAddress = (command: string | string[]): boolean => begins(command, '# request an address')

const begins = (command: string | string[], line: string): boolean =>
  typeof command === 'string' && command.startsWith(`${line}\n`)

const sealedGuest = `mini yes ${Buffer.from('127.0.0.1 localhost mini\n').toString('base64')}\n`
