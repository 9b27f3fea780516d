// The page of settings, from the schemas that read them.
import { hostname } from 'node:os'
import { configSchema as agent } from '@dormouse/agent/config.ts'
import { configSchema as controlPlane } from '@dormouse/control-plane/config.ts'
import { describeConfig, type SettingRow } from '@dormouse/process'
import { help as startHelp } from '../start/options.ts'
import { code, head, table } from './markdown.ts'

export function configurationPage(): string {
  return [
    head('Configuration', 'the configuration schemas of the programs'),
    'Everything is set by environment variables. One that is empty counts as unset; one that does not fit stops the',
    'program with a sentence that names it. Nothing else is read.\n',
    '## The control plane\n',
    `${settings(describeConfig(controlPlane))}\n`,
    '## The agent\n',
    `${settings(describeConfig(agent))}\n`,
    '## `npm start`\n\nWhat starts with `DORMOUSE_` is passed on to the programs it starts.\n',
    `\`\`\`text\n${startHelp}\n\`\`\`\n`,
  ].join('\n')
}

const settings = (rows: readonly SettingRow[]): string =>
  table(
    ['variable', 'default', 'what it is'],
    rows.map((row) => [code(row.name), defaultOf(row), row.description + (row.secret ? ' (secret)' : '')]),
  )

/** The page must not depend on the machine that makes it. */
function defaultOf({ default: given }: SettingRow): string {
  if (given === hostname()) return 'the host’s name'
  return given === 'required' || given === 'none' ? given : code(given)
}
