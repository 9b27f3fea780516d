// What `npm start` can be told, by words and by environment. Pure.
import { resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { WrongWords } from '../words.ts'

export const help = `npm start                     desktops on this machine's libvirt and QEMU (Debian or Ubuntu; without root the packages
                              must be there, and guests have no network)
npm start -- --simulated 3    three simulated hosts instead: no root, no libvirt, up in seconds
npm start -- --replicas 2     two control planes on PORT and PORT + 1: one leads, the other takes over when it ends
npm start -- --tour           show the main job again (it is shown by itself the first time)
npm start -- --no-tour        do not show it

Environment
  PORT            port of the API (default 8080)
  DORMOUSE_DATA   folder that holds everything it writes (default .dormouse)
  DATABASE_URL    a Postgres to use instead of its own
  DORMOUSE_IMAGES_DIR  folder of guest images, to share them between instances (default images in DORMOUSE_DATA)

It serves until Ctrl-C, which hibernates what is awake and stops all it started; a second Ctrl-C skips that.`

export interface StartOptions {
  help: boolean
  /** How many simulated hosts; 0 is the real thing. */
  simulated: number
  /** How many control planes: the first on the port, each other on the next one. */
  replicas: number
  tour: boolean | undefined
  port: number
  dataDir: string
  databaseUrl: string | undefined
  imagesDir: string | undefined
}

/** Reads words and environment; throws an error that says what was wrong and what to write instead. */
export function readOptions(words: string[], env: Record<string, string | undefined>, cwd: string): StartOptions {
  const { values } = parseArgs({
    args: words,
    options: {
      help: { type: 'boolean', short: 'h', default: false },
      simulated: { type: 'string' },
      replicas: { type: 'string', default: '1' },
      tour: { type: 'boolean' },
      'no-tour': { type: 'boolean' },
    },
  })
  const replicas = numberIn('--replicas', values.replicas, 1, 4)
  const port = numberIn('PORT', env.PORT || '8080', 1, 65_536 - replicas)
  const simulated = values.simulated === undefined ? 0 : numberIn('--simulated', values.simulated, 1, 100)
  if (simulated && values.tour) throw new WrongWords('--tour needs real guests: leave --simulated out')
  return {
    help: values.help,
    simulated,
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
  throw new WrongWords(`${name} is "${text}"; it must be a whole number from ${min} to ${max}`)
}
