// Finds a desktop by what a person writes for it: its id, its name, or a part of its id.
import type { DesktopJson } from '@dormouse/contract'
import type { DesktopPage, DesktopQuery } from './client.ts'
import { InvalidRequestError, NotFoundError } from './errors.ts'
import type { CallOptions } from './http.ts'

interface Lists {
  listDesktops(query: DesktopQuery, call?: CallOptions): Promise<DesktopPage>
}

const idForm = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i
const nameForm = /^[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?$/
/**
 * Shorter parts are in many ids by accident: once the desktop with the name `4711` is gone, `destroy 4711` must not find another.
 */
const partLeast = 8
const partForm = /^[0-9a-f-]{1,35}$/i
const mostShown = 5

/**
 * The id of the desktop with this id, this name, or the only one with this part of its id. An id is not looked up, and an exact
 * name comes before a part of an id. Throws NotFoundError, or InvalidRequestError if several have the part.
 */
export async function idOfDesktop(client: Lists, word: string, call: CallOptions = {}): Promise<string> {
  if (idForm.test(word)) return word.toLowerCase()
  const [named] = nameForm.test(word) ? (await client.listDesktops({ name: word }, call)).desktops : []
  if (named) return named.id
  const isPart = partForm.test(word)
  const found = isPart && word.length >= partLeast ? await withPart(client, word.toLowerCase(), call) : []
  if (found.length === 1) return found[0]!.id
  const least = isPart && word.length < partLeast ? `; a part of an id has at least ${partLeast} characters` : ''
  if (found.length === 0) throw new NotFoundError(`no desktop has the name or the id ${JSON.stringify(word)}${least}`)
  const few = found.slice(0, mostShown).map(({ id }) => id)
  throw new InvalidRequestError(
    `several desktops have "${word}" in their id: ${few.join(', ')}${found.length > mostShown ? ' and others' : ''}`,
  )
}

async function withPart(client: Lists, part: string, call: CallOptions): Promise<DesktopJson[]> {
  const found: DesktopJson[] = []
  let cursor: string | undefined
  do {
    const page = await client.listDesktops({ limit: 1_000, cursor }, call)
    found.push(...page.desktops.filter(({ id }) => id.includes(part)))
    cursor = page.next
  } while (cursor !== undefined && found.length <= mostShown)
  return found
}
