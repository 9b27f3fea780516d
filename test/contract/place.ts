// Which service is held to the contract, and by which keys: those of the command line, else those of a local `npm start`,
// whose operator makes a second organisation. Looks before the first row whether they are of use.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createAdminClient } from '@dormouse/client'
import type { Context, Place } from './context.ts'

/** Said to whoever typed the command, without a stack. */
export class Unusable extends Error {}

interface Words {
  url?: string | undefined
  key?: string | undefined
  'other-key'?: string | undefined
}

/** Where to look, and how to leave it; throws Unusable if the words are not enough. */
export async function findPlace({
  url,
  key,
  'other-key': otherKey,
}: Words): Promise<Place & { leave(): Promise<void> }> {
  if (url && key && otherKey) return { url: originOf(url), key, otherKey, leave: async () => undefined }
  if (url || key || otherKey) throw new Unusable('--url, --key and --other-key are given together, or none of them.')
  const local = readLocal()
  const admin = createAdminClient({ baseUrl: local.base_url, operatorKey: local.operator_key })
  const { id } = await admin.createOrg({ name: 'conformance' })
  const made = await admin.createKey({ org_id: id, name: 'conformance' })
  const leave = () => admin.revokeKey(made.id)
  return { url: local.base_url, key: local.api_key, otherKey: made.api_key, leave }
}

/** Throws Unusable if nobody answers, a key is not taken, or both are of one organisation. */
export async function lookAround(context: Context): Promise<void> {
  for (const [word, key] of [
    ['--key', context.key],
    ['--other-key', context.otherKey],
  ] as const) {
    const answer = await context.get('/v1/desktops', { key }).catch((error: Error) => {
      throw new Unusable(`The service does not answer: ${error.message}`)
    })
    if (answer.status !== 200) throw new Unusable(`${word} is not taken: ${answer.status} ${answer.text.slice(0, 300)}`)
  }
  const orgOf = async (id: string, key: string) => (await context.get(`/v1/desktops/${id}`, { key })).json?.org_id
  const theirs = await orgOf(await context.foreign(), context.otherKey)
  if (theirs === (await orgOf(await context.idle(), context.key)))
    throw new Unusable('--key and --other-key belong to one organisation; two are needed.')
}

function originOf(url: string): string {
  if (/^https?:/.test(url) && URL.canParse(url)) return new URL(url).origin
  throw new Unusable(`--url is "${url}"; it must be a URL such as https://dormouse.example`)
}

function readLocal(): { base_url: string; api_key: string; operator_key: string } {
  const file = join(process.env.DORMOUSE_DATA || '.dormouse', 'local.json')
  if (existsSync(file)) return JSON.parse(readFileSync(file, 'utf8'))
  throw new Unusable(`No service runs here (no ${file}): npm start, or give --url, --key and --other-key.`)
}
