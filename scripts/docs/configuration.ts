// Generates docs/configuration.md from the schemas that read the settings.
import { hostname } from 'node:os'
import { configSchema as agent } from '@dormouse/agent/config.ts'
import { configSchema as controlPlane } from '@dormouse/control-plane/config.ts'
import { describeConfig, type SettingRow } from '@dormouse/process'
import { help as startHelp } from '../start/options.ts'
import { code, head, table } from './markdown.ts'

export function configurationPage(): string {
  return [
    head('Configuration', 'the configuration schemas of the programs'),
    'Settings are environment variables; the programs read no configuration files. An empty variable counts as unset. An',
    'invalid one stops the program, with an error that names it. One that begins with `DORMOUSE_` and is not listed here',
    'is ignored, with a warning that names what it is like.\n',
    '## The control plane\n',
    `${settings(describeConfig(controlPlane))}\n`,
    '## The agent\n',
    `${settings(describeConfig(agent))}\n`,
    '## `npm start`\n\n`npm start` passes the variables above that start with `DORMOUSE_` on to the program that they are of.\n',
    `\`\`\`text\n${startHelp}\n\`\`\`\n`,
  ].join('\n')
}

const settings = (rows: readonly SettingRow[]): string =>
  table(
    ['variable', 'default', 'what it sets'],
    rows.map((row) => [code(row.name), defaultOf(row), row.description + (row.secret ? ' (secret)' : '')]),
  )

/** The page must be the same on every machine. */
function defaultOf({ default: given }: SettingRow): string {
  if (given === hostname()) return 'the host’s name'
  return given === 'required' || given === 'none' ? given : code(given)
}
