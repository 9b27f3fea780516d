// What a simulated guest answers to the script that makes it nobody's. The script itself is not run.

/** What the script prints that makes a guest nobody's; undefined where the command is another one. */
export const sealing = (command: string | string[]): string | undefined =>
  typeof command === 'string' && command.startsWith('# seal a template') ? sealedGuest : undefined

const sealedGuest = `mini yes ${Buffer.from('127.0.0.1 localhost mini\n').toString('base64')}\n`
