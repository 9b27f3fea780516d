// kill -9 of an agent in the middle of a fetch, at one failpoint after the other, in one first wake: the image is there whole or
// not at all, the next agent goes on, and the wake ends well.
import { randomUUID } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ImageServer } from '@dormouse/agent/testing/image-server.ts'
import { type DesktopJson, imageFolderName, type OperationJson } from '@dormouse/contract'
import { waitFor } from '../wait-for.ts'
import type { Stage } from './stage.ts'

/** In the order in which a fetch comes to them. */
export const fetchFailpoints: readonly [string, ...string[]] = [
  'image.after-manifest=kill',
  'image.after-file=kill',
  'image.during-file=kill@2',
  'image.before-rename=kill',
  'image.after-rename=kill',
]

/** Returns every fault in words. The host must be a simulated one: the image has random bytes. */
export async function killInFetch(stage: Stage, failpoints: readonly [string, ...string[]]): Promise<string[]> {
  await using server = await ImageServer.start()
  server.put('fetched', randomUUID().slice(0, 8), 1_000_000)
  const { name, version } = server.ref()
  const folder = imageFolderName({ name, version })
  const added = await stage.admin('POST', 'images', { name, version, from: server.url })
  if (added.status !== 201) throw new Error(`image add: ${added.status} ${added.text}`)
  const made = await stage.api('POST', '/v1/desktops', { body: { tier: 'small', image_version: folder } })
  const { id } = made.json as DesktopJson

  const [first, ...others] = failpoints
  await stage.arm('agent', first)
  const wake = (await stage.api('POST', `/v1/desktops/${id}/wake`)).json as OperationJson
  const faults: string[] = []
  for (const [at, failpoint] of failpoints.entries()) {
    await waitFor(`the agent to die at ${failpoint}`, () => !stage.alive('agent'), stage.testbed.patienceMs)
    await stage.kill('agent')
    if ((await copyOf(stage, folder, server)) === 'half') faults.push(`${folder} is half there after ${failpoint}`)
    stage.launch('agent', others[at])
  }
  const settled = await waitFor(
    'the wake to settle',
    async () => {
      const operation = await stage.operation(wake.id)
      return operation && operation.settled_at !== null && operation
    },
    stage.testbed.patienceMs,
  )
  if (settled.state !== 'succeeded') faults.push(`the wake ${settled.state}: ${settled.error}`)
  if ((await copyOf(stage, folder, server)) !== 'whole') faults.push(`${folder} is not whole in the end`)
  const left = (await readdir(stage.images.fetchedDir)).filter((entry) => entry.startsWith('.'))
  if (left.length > 0) faults.push(`the fetch has left ${left.join(', ')}`)
  await stage.ask(id, 'destroy')
  return faults
}

/** What the host has of the image under its name. */
async function copyOf({ images }: Stage, folder: string, { files }: ImageServer): Promise<'none' | 'half' | 'whole'> {
  if (!(await readdir(images.fetchedDir).catch((): string[] => [])).includes(folder)) return 'none'
  for (const [file, bytes] of files) {
    const found = await readFile(join(images.pathOfFetched(folder), file)).catch(() => undefined)
    if (!found?.equals(bytes)) return 'half'
  }
  return 'whole'
}
