// What `npm start` takes: its options and environment variables. Pure.
import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { UsageError } from '@dormouse/process/arguments'
import { maxHosts } from './host-places.ts'

export const help = `npm start                     run desktops on this machine with libvirt and QEMU (Debian or Ubuntu). Root installs the
                              packages that are missing; without root they must be there, and guests have no network
npm start -- --hosts 2        run two hosts (at most ${maxHosts}), each with its libvirt, network and folders; they share this machine's
                              memory and processors. Needs root. Without it: as many hosts as have desktops, at least one
npm start -- --simulated 3    run three simulated hosts instead: no root, no libvirt, ready in seconds
npm start -- --replicas 2     run two control planes, on PORT and PORT + 1: one leads, the other takes over when it ends
npm start -- --tour           show the tour again (the first start shows it)
npm start -- --no-tour        do not show the tour

Environment
  PORT                 port of the API (default 8080)
  DORMOUSE_DATA        folder for everything it writes (default .dormouse)
  DATABASE_URL         a Postgres to use instead of one of its own
  DORMOUSE_IMAGES_DIR  folder of guest images, to share them between instances (default images/ in DORMOUSE_DATA)

It runs until Ctrl-C, SIGTERM or the end of its terminal, which hibernate the awake desktops and stop everything. A second
Ctrl-C, at least a second later, skips hibernating.`

export interface StartOptions {
  help: boolean
  /** How many simulated hosts; 0 for real ones. */
  simulated: number
  /** How many real hosts; undefined for as many as the folder has. */
  hosts: number | undefined
  /** How many control planes: the first on `port`, each other on the next port. */
  replicas: number
  tour: boolean | undefined
  port: number
  dataDir: string
  databaseUrl: string | undefined
  imagesDir: string | undefined
}

/** Throws a UsageError that names the wrong option and what it takes. */
export function readOptions(args: string[], env: Record<string, string | undefined>, cwd: string): StartOptions {
  const { values } = parseArgs({
    args,
    options: {
      help: { type: 'boolean', short: 'h', default: false },
      simulated: { type: 'string' },
      hosts: { type: 'string' },
      replicas: { type: 'string', default: '1' },
      tour: { type: 'boolean' },
      'no-tour': { type: 'boolean' },
    },
  })
  const replicas = numberIn('--replicas', values.replicas, 1, 4)
  const port = numberIn('PORT', env.PORT || '8080', 1, 65_536 - replicas)
  const simulated = values.simulated === undefined ? 0 : numberIn('--simulated', values.simulated, 1, 100)
  const hosts = values.hosts === undefined ? undefined : numberIn('--hosts', values.hosts, 1, maxHosts)
  if (simulated && hosts) throw new UsageError('--hosts is for real hosts; leave out --simulated')
  if (simulated && values.tour) throw new UsageError('--tour needs real guests; leave out --simulated')
  return {
    help: values.help,
    simulated,
    hosts,
    replicas,
    tour: values['no-tour'] ? false : values.tour,
    port,
    dataDir: resolve(cwd, env.DORMOUSE_DATA || '.dormouse'),
    databaseUrl: env.DATABASE_URL || undefined,
    imagesDir: env.DORMOUSE_IMAGES_DIR ? resolve(cwd, env.DORMOUSE_IMAGES_DIR) : undefined,
  }
}

function numberIn(name: string, text: string, min: number, max: number): number {
  const value = Number(text)
  if (Number.isInteger(value) && value >= min && value <= max) return value
  throw new UsageError(`${name} is "${text}"; it must be a whole number from ${min} to ${max}`)
}
