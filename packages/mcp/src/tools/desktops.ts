// Tools for desktops as such: which there are, and their lives.
import type { DesktopJson } from '@dormouse/client'
import { z } from 'zod'
import { type Call, tool } from '../tool.ts'

const lineOf = ({ id, state, tier, image_version }: DesktopJson) => `${id}  ${state}  ${tier}  ${image_version}`

const from = {
  memory: 'its memory was restored',
  disk: 'it booted from its disk',
  image: 'it booted for the first time',
}

async function woken(id: string, { client, signal }: Call): Promise<string> {
  const { result } = await client.settle('wake', id, {}, { signal })
  const path = from[result?.resumed_from as keyof typeof from]
  return path ? `${id} is awake; ${path}` : `${id} is awake`
}

export const listDesktops = tool({
  name: 'desktop_list',
  title: 'List desktops',
  description: 'Lists desktops, newest first: id, state, tier and image.',
  grant: 'see',
  onDesktop: false,
  idempotent: true,
  input: { limit: z.int().min(1).max(100).default(20).describe('At most so many') },
  run: async ({ limit }, { client, signal }) => {
    const { desktops, next } = await client.listDesktops({ limit }, { signal })
    if (desktops.length === 0) return { text: 'There are no desktops. Call desktop_create.' }
    return { text: [...desktops.map(lineOf), ...(next ? ['There are more; raise limit.'] : [])].join('\n') }
  },
})

export const createDesktop = tool({
  name: 'desktop_create',
  title: 'Create a desktop',
  description: 'Creates a desktop and wakes it. Returns its id when it can be used.',
  grant: 'create',
  onDesktop: false,
  idempotent: false,
  input: {
    tier: z.enum(['small', 'default', 'large']).default('default').describe('Size of the desktop'),
    image: z.string().max(128).optional().describe('Version of the image to start from; the service has a default'),
    wake: z.boolean().default(true).describe('Wake it at once'),
  },
  run: async ({ tier, image, wake }, call) => {
    const { id } = await call.client.createDesktop({ tier, image_version: image }, { signal: call.signal })
    if (!wake) return { text: `Created ${id}. It does not run yet: call desktop_wake.` }
    // The id is said also where the wake fails: the desktop exists.
    return woken(id, call).then(
      (text) => ({ text }),
      (error: Error) => {
        throw Object.assign(error, { message: `created ${id}, but it did not wake: ${error.message}` })
      },
    )
  },
})

export const wakeDesktop = tool({
  name: 'desktop_wake',
  title: 'Wake a desktop',
  description: 'Wakes a sleeping desktop and waits until it can be used. Memory, programs and files are as they were.',
  grant: 'power',
  onDesktop: true,
  idempotent: true,
  input: {},
  run: async ({ desktop_id: id }, call) => {
    const { state } = await call.client.getDesktop(id, { signal: call.signal })
    return { text: state === 'awake' ? `${id} is awake already` : await woken(id, call) }
  },
})

export const hibernateDesktop = tool({
  name: 'desktop_hibernate',
  title: 'Hibernate a desktop',
  description: 'Saves memory and disk of a desktop and stops it. It costs no processor time then, and can be woken.',
  grant: 'power',
  onDesktop: true,
  idempotent: true,
  input: {},
  run: async ({ desktop_id: id }, { client, signal }) => {
    const { state } = await client.getDesktop(id, { signal })
    if (state === 'hibernated') return { text: `${id} is hibernated already` }
    await client.settle('hibernate', id, {}, { signal })
    return { text: `${id} is hibernated` }
  },
})

export const destroyDesktop = tool({
  name: 'desktop_destroy',
  title: 'Destroy a desktop',
  description: 'Deletes a desktop with its memory, disk and files, for good.',
  grant: 'destroy',
  onDesktop: true,
  idempotent: true,
  input: {},
  run: async ({ desktop_id: id }, { client, signal }) => {
    await client.settle('destroy', id, {}, { signal })
    return { text: `${id} is destroyed` }
  },
})
