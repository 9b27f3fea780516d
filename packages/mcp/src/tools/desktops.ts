// Tools for desktops as such: list, create, wake, hibernate and destroy.
import { type Client, type DesktopJson, DormouseError } from '@dormouse/client'
import { z } from 'zod'
import { type Call, tool } from '../tool.ts'

const ids = { desktop_id: z.string() }
const state = z.string().describe('Such as awake, hibernated or stopped')
const resumed = z.enum(['memory', 'disk', 'image']).optional().describe('What came back')

const lineOf = ({ id, name, state, tier, image_version }: DesktopJson) =>
  [id, ...(name === null ? [] : [name]), state, tier, image_version].join('  ')

/** Strict modes take no maps, so a label is a string here. */
const labelOf = ([key, value]: [string, string]) => `${key}=${value}`

const entryOf = ({ id, name, labels, state, tier, image_version, destroy_at }: DesktopJson) => ({
  ...{ desktop_id: id, ...(name !== null && { name }), labels: Object.entries(labels).map(labelOf) },
  ...{ state, tier, image: image_version, ...(destroy_at && { destroy_at }) },
})

const from = {
  memory: 'its memory was restored',
  disk: 'it booted from its disk',
  image: 'it booted for the first time',
}

async function woken(id: string, { client, signal }: Call) {
  const { result } = await client.settle('wake', id, { ensure: true }, { signal })
  const resumed_from = result?.resumed_from
  const next = result?.next_tier ? `, in the tier ${result.tier}; ${result.next_tier} waits for its next boot` : ''
  const text = `${id} is awake${resumed_from ? `; ${from[resumed_from]}` : ''}${next}`
  return { text, data: { desktop_id: id, state: 'awake', ...(resumed_from && { resumed_from }) } }
}

export const listDesktops = tool({
  name: 'desktop_list',
  title: 'List desktops',
  description: 'Lists desktops, newest first: id, name, state, tier and image.',
  grant: 'see',
  onDesktop: false,
  idempotent: true,
  input: {
    limit: z.int().min(1).max(100).default(20).describe('At most so many'),
    select: z.string().max(2_000).optional().describe('Only those whose labels match, such as team=qa,run!=42'),
  },
  output: {
    desktops: z.array(
      z.strictObject({
        ...ids,
        name: z.string().optional(),
        labels: z.array(z.string()).describe('Such as team=qa'),
        ...{ state, tier: z.string(), image: z.string() },
        destroy_at: z.string().optional().describe('When it is destroyed by itself'),
      }),
    ),
    more: z.boolean().describe('Whether there are more than these'),
  },
  run: async ({ limit, select }, { client, signal }) => {
    const { desktops, next } = await client.listDesktops({ limit, select }, { signal })
    const data = { desktops: desktops.map(entryOf), more: next !== undefined }
    if (desktops.length === 0) {
      const none = select === undefined ? 'There are no desktops.' : 'No desktop is selected.'
      return { text: `${none} Call desktop_create.`, data }
    }
    return { text: [...desktops.map(lineOf), ...(next ? ['There are more; raise limit.'] : [])].join('\n'), data }
  },
})

export const listOffers = tool({
  name: 'desktop_images',
  title: 'List images and tiers',
  description: 'Lists the images and the tiers (sizes) that desktop_create takes.',
  grant: 'see',
  onDesktop: false,
  idempotent: true,
  input: {},
  output: {
    images: z.array(z.strictObject({ image: z.string(), version: z.string().optional(), is_default: z.boolean() })),
    tiers: z.array(z.strictObject({ tier: z.string(), vcpus: z.int(), memory_mib: z.int(), disk_gib: z.int() })),
  },
  run: async (_, { client, signal }) => {
    const [{ images }, { tiers }] = await Promise.all([client.listImages({ signal }), client.listTiers({ signal })])
    const data = {
      images: images.map(({ image_version: image, resolved_image_version: version, is_default }) => ({
        ...{ image, is_default },
        ...(version !== null && { version }),
      })),
      tiers: tiers.map(({ tier, vcpus, memory_mib, disk_gib }) => ({ tier, vcpus, memory_mib, disk_gib })),
    }
    const lines = [
      ...data.images.map(({ image, is_default }) => `image ${image}${is_default ? ' (the default)' : ''}`),
      ...tiers.map(
        (one) => `tier ${one.tier}: ${one.vcpus} CPUs, ${one.memory_mib} MiB memory, ${one.disk_gib} GiB disk`,
      ),
    ]
    return { text: lines.join('\n'), data }
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
    image: z.string().max(128).optional().describe('One of desktop_images; the service has a default'),
    name: z.string().max(64).optional().describe('A name, to find it by: lower-case letters, digits, - _ .'),
    labels: z
      .array(z.string().regex(/^[^=]+=/, 'must be key=value'))
      .max(32)
      .optional()
      .describe('Such as team=qa'),
    get_or_create: z.boolean().default(false).describe('Take the desktop of that name, if there is one'),
    destroy_after_secs: z.int().min(1).optional().describe('Destroy a new one by itself after so many seconds'),
    wake_on: z
      .array(z.enum(['exec', 'files', 'input', 'screen', 'ports']))
      .max(5)
      .optional()
      .describe('Calls that wake a new one when it is asleep; none by default'),
    wake: z.boolean().default(true).describe('Wake it at once'),
  },
  // The API has both names.
  prepare: ({ image_version, image = image_version, ...given }) => {
    if (image_version !== undefined && image_version !== image)
      throw new TypeError('image and image_version are two names of one argument; give one of them')
    return { ...given, ...(image !== undefined && { image }) }
  },
  output: { ...ids, state, resumed_from: resumed },
  run: async ({ tier, image, name, labels, get_or_create, destroy_after_secs, wake_on, wake }, call) => {
    const pairs = labels?.map((label) => [label.split('=', 1)[0]!, label.slice(label.indexOf('=') + 1)])
    const { id, state } = await call.client.createDesktop(
      {
        ...{ tier, image_version: image, name, labels: pairs && Object.fromEntries(pairs), destroy_after_secs },
        wake_on,
        ...(get_or_create && { get_or_create }),
      },
      { signal: call.signal },
    )
    if (!wake)
      return { text: `${id} is ${state}. Call desktop_wake before you use it.`, data: { desktop_id: id, state } }
    return woken(id, call).catch(async (error: unknown) => {
      // It may have been there before, with what others have in it.
      if (get_or_create) throw error
      const outcome = await removed(id, call.client)
      throw error instanceof DormouseError ? Object.assign(error, { message: `${error.message}\n${outcome}` }) : error
    })
  },
})

/**
 * A desktop that could not be woken is of no use, and its creator may lack the grant to destroy it. An agent that has left does
 * not abort this.
 */
async function removed(id: string, client: Client): Promise<string> {
  try {
    await client.settle('destroy', id)
    return 'The new desktop was removed again.'
  } catch (error) {
    if (!(error instanceof DormouseError)) throw error
    return `The new desktop ${id} is left, because it could not be removed: ${error.message}`
  }
}

export const wakeDesktop = tool({
  name: 'desktop_wake',
  title: 'Wake a desktop',
  description: 'Wakes a sleeping desktop and waits until it can be used. Memory, programs and files are as they were.',
  grant: 'power',
  onDesktop: true,
  idempotent: true,
  input: {},
  output: { ...ids, state, resumed_from: resumed },
  run: async ({ desktop_id: id }, call) => {
    const { state } = await call.client.getDesktop(id, { signal: call.signal })
    if (state === 'awake') return { text: `${id} is awake already`, data: { desktop_id: id, state } }
    return woken(id, call)
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
  output: { ...ids, state },
  run: async ({ desktop_id: id }, { client, signal }) => {
    const { state } = await client.getDesktop(id, { signal })
    const data = { desktop_id: id, state: 'hibernated' }
    if (state === 'hibernated') return { text: `${id} is hibernated already`, data }
    await client.settle('hibernate', id, { ensure: true }, { signal })
    return { text: `${id} is hibernated`, data }
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
  output: { ...ids, state },
  run: async ({ desktop_id: id }, { client, signal }) => {
    await client.settle('destroy', id, {}, { signal })
    return { text: `${id} is destroyed`, data: { desktop_id: id, state: 'destroyed' } }
  },
})

const measured = (what: string) => z.number().optional().describe(what)

export const readMetrics = tool({
  name: 'desktop_metrics',
  title: 'See what a desktop uses',
  description: 'Says what a desktop uses of its processor, memory, disk and network, as measured last, every 10 s.',
  grant: 'see',
  onDesktop: true,
  idempotent: true,
  input: {},
  output: {
    ...{ ...ids, state },
    measured_at: measured('Unix seconds; nothing is known if it is left out'),
    cpu_percent: measured('Of one CPU'),
    ...{ memory_used_mib: measured('As the guest reports it'), memory_mib: measured('What it has') },
    disk_read_bytes_per_sec: measured('Average of 10 s'),
    disk_write_bytes_per_sec: measured('Average of 10 s'),
    network_received_bytes_per_sec: measured('Average of 10 s'),
    network_sent_bytes_per_sec: measured('Average of 10 s'),
  },
  run: async ({ desktop_id: id }, { client, signal }) => {
    const { state, metrics } = await client.getDesktop(id, { include: 'metrics', signal })
    const { at, ...figures } = metrics ?? {}
    const known = Object.entries(figures).filter(([, value]) => value !== null)
    const data = { desktop_id: id, state, ...(at !== undefined && { measured_at: at }), ...Object.fromEntries(known) }
    const lines = known.map(([name, value]) => `${name}: ${value}`)
    const head = at === undefined ? 'nothing was measured yet' : `measured at ${new Date(at * 1_000).toISOString()}`
    return { text: [`${id} is ${state}; ${head}`, ...lines].join('\n'), data }
  },
})
