// Guarantee: the agent's own folders are never in one that QEMU's user can write.
import { readConfig } from '@dormouse/process'
import { expect, test } from 'vitest'
import { configSchema, foldersOf } from './config.ts'

const foldersWith = (env: Record<string, string>) =>
  foldersOf(readConfig(configSchema, { DORMOUSE_AGENT_CONTROL_PLANES: 'https://api.example', ...env }))

test.each([
  [{ DORMOUSE_AGENT_DISKS_DIR: '/disks' }, '/disks/moves'],
  [{ DORMOUSE_AGENT_DISKS_DIR: '/disks', DORMOUSE_AGENT_SOCKETS_DIR: '/run/sockets' }, '/disks/moves'],
  [
    { DORMOUSE_AGENT_DISKS_DIR: `/${'d'.repeat(79)}`, DORMOUSE_AGENT_SOCKETS_DIR: '/run/sockets' },
    `/${'d'.repeat(79)}/moves`,
  ],
  [{ DORMOUSE_AGENT_DISKS_DIR: `/${'d'.repeat(80)}`, DORMOUSE_AGENT_SOCKETS_DIR: '/run/sockets' }, '/run/moves'],
])('with %o, moves have the folder %s', (env, moves) => {
  expect(foldersWith(env).moves).toBe(moves)
})
