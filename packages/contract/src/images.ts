// Registered images: their names, what a host needs to fetch one, and operators' routes for them.
import { z } from 'zod'
import { tier, time } from './desktops.ts'
import { id } from './ids.ts'
import { exampleShares, shares } from './shares.ts'

/** Letters, digits and some punctuation, so that a name never becomes a path and never contains an `@`. */
const plainName = z
  .string()
  .regex(
    /^[A-Za-z0-9](?:[A-Za-z0-9_+-]|\.(?!\.)){0,59}$/,
    'must be 1 to 60 letters, digits, dots, dashes, underscores or plus signs, begin with a letter or digit, and have no two dots in a row',
  )
export const imageName = plainName.describe('Such as `mini`')
export const imageVersionName = plainName.describe('Such as `3f0c5a`')

/** SHA-256 in lower-case hex. */
export const sha256Hex = z.string().regex(/^[0-9a-f]{64}$/, 'must be a SHA-256 of 64 lower-case hex digits')

/** An image server cannot fill a host: the largest image that can be registered. */
export const maxImageBytes = 1024 ** 4

/** Where an image is: the URL of a folder on a web server, or the path of a folder on the hosts. */
export const imageSource = z
  .string()
  .max(1_000)
  .refine(
    isFolderUrl,
    'must be the http or https URL of a folder, without user name, query and fragment, or an absolute path on the hosts without “..”',
  )

function isFolderUrl(text: string): boolean {
  if (text.startsWith('/')) return !/\p{Cc}/u.test(text) && !text.split('/').includes('..')
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (!url || !['http:', 'https:'].includes(url.protocol)) return false
  return !url.username && !url.password && !url.search && !url.hash
}

/** What a host needs to fetch a registered image, and to verify it. */
export const imageRef = z.object({
  name: imageName,
  version: imageVersionName,
  /** SHA-256 of its manifest, which has the SHA-256 of every other file. */
  digest: sha256Hex,
  source: imageSource,
  /** The size of all files together, without the manifest. */
  bytes: z.int().min(1).max(maxImageBytes),
})
export type ImageRef = z.infer<typeof imageRef>

/** The name of the folder that holds a version. */
export const imageFolderName = ({ name, version }: Pick<ImageRef, 'name' | 'version'>): string => `${name}@${version}`

/** The parts of `name@version`; the version is undefined if there is none. */
export function imageNameParts(text: string): { name: string; version: string | undefined } {
  const at = text.indexOf('@')
  return at < 0 ? { name: text, version: undefined } : { name: text.slice(0, at), version: text.slice(at + 1) }
}

export const addImageBody = z.object({
  name: imageName,
  version: imageVersionName,
  from: imageSource.describe('URL of the version’s folder, or its path on the hosts'),
  digest: sha256Hex.nullish().describe('SHA-256 of `manifest.json`. When omitted, a host reads it from there'),
  prefetch: z
    .boolean()
    .nullish()
    .describe(
      '`true`: hosts fetch it now, not at the first wake that needs it, and make a template of it for the tier `default`',
    ),
})
export type AddImageBody = z.input<typeof addImageBody>

const hostImageJson = z.object({
  host_id: id,
  host_name: z.string(),
  state: z
    .enum(['present', 'waiting', 'fetching', 'failed', 'absent'])
    .describe('`absent`: it fetches the image when it needs it'),
  done_bytes: z.int().min(0).nullable().describe('While it fetches'),
  error: z.string().nullable().describe('Why the last attempt failed'),
  templates: z.int().min(0).optional().describe('Its saved boots of the image, with which new desktops begin'),
})
export type HostImageJson = z.infer<typeof hostImageJson>

export const imageJson = z
  .object({
    name: z.string(),
    version: z.string(),
    digest: z.string().describe('SHA-256 of `manifest.json`'),
    from: z.string(),
    bytes: z.int().min(0),
    in_use: z.boolean().describe('Whether the name alone means this version'),
    prefetch: z.boolean().describe('Whether all hosts fetch it, and make a template of it, before it is needed'),
    retired_at: time.nullable().describe('Since then no new desktop is made from it'),
    hosts: z.array(hostImageJson),
    created_at: time,
  })
  .meta({ id: 'Image' })
export type ImageJson = z.infer<typeof imageJson>

export const imagesJson = z.object({ images: z.array(imageJson) })

/** An image as customers see it: what a desktop can be created with. */
export const offeredImageJson = z
  .object({
    image_version: z.string().describe('Of a create: a name, or `name@version`'),
    resolved_image_version: z
      .string()
      .nullable()
      .describe('Registered version that it means now, as `name@version`; null where it is not registered'),
    is_default: z.boolean().describe('Whether desktops that are created without one have it'),
  })
  .meta({
    id: 'OfferedImage',
    examples: [{ image_version: 'mini', resolved_image_version: 'mini@3f0c5a', is_default: true }],
  })
export type OfferedImageJson = z.infer<typeof offeredImageJson>

export const offeredImagesJson = z.object({ images: z.array(offeredImageJson) }).meta({
  id: 'OfferedImageList',
  examples: [{ images: [{ image_version: 'mini', resolved_image_version: 'mini@3f0c5a', is_default: true }] }],
})
export type OfferedImagesJson = z.infer<typeof offeredImagesJson>

const exampleTier = {
  tier: 'small',
  vcpus: 1,
  memory_mib: 512,
  disk_gib: 10,
  shares: exampleShares,
}

/** The size of a tier, and what its desktops get of their hosts. */
export const tierJson = z
  .object({
    tier,
    vcpus: z.int().min(1).describe('Virtual processors'),
    memory_mib: z.int().min(1),
    disk_gib: z.int().min(1),
    shares,
  })
  .meta({ id: 'Tier', examples: [exampleTier] })
export type TierJson = z.infer<typeof tierJson>

export const tiersJson = z.object({ tiers: z.array(tierJson) }).meta({
  id: 'TierList',
  examples: [{ tiers: [exampleTier] }],
})
export type TiersJson = z.infer<typeof tiersJson>
