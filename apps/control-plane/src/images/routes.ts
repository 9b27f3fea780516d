// Routes for images: what customers can create desktops with, and operators' registry. Only HTTP.
import {
  addImageBody,
  imageJson,
  imageName,
  imageNameParts,
  imagesJson,
  imageVersionName,
  offeredImagesJson,
  type TierJson,
  tiersJson,
} from '@dormouse/contract'
import { z } from 'zod'
import type { App } from '../http/app.ts'
import { noteOf } from '../http/audit-trail.ts'
import type { Leadership } from '../leadership/leadership.ts'
import type { Offers } from './offers.ts'
import type { Images } from './service.ts'

const fullName = z
  .string()
  .transform(imageNameParts)
  .pipe(z.object({ name: imageName, version: imageVersionName }, 'must be name@version'))
const params = z.object({ image: fullName.describe('Such as `mini@3f0c5a`') })

export interface OfferRoutesOptions {
  offers: Offers
  tiers: TierJson[]
}

export function offerRoutes(app: App, { offers, tiers }: OfferRoutesOptions): void {
  app.get(
    '/images',
    {
      schema: {
        operationId: 'listImages',
        right: 'see',
        tags: ['Desktops'],
        summary: 'List the images that desktops can be created with',
        response: { 200: offeredImagesJson },
        answers: { 200: 'The default first, then by name' },
      },
    },
    async () => ({ images: await offers.list() }),
  )

  app.get(
    '/tiers',
    {
      schema: {
        operationId: 'listTiers',
        right: 'see',
        tags: ['Desktops'],
        summary: 'List the tiers and their sizes',
        response: { 200: tiersJson },
        answers: { 200: 'The smallest first' },
      },
    },
    async () => ({ tiers }),
  )
}

export function imageAdminRoutes(app: App, { images, leadership }: { images: Images; leadership: Leadership }): void {
  app.get('/images', { schema: { response: { 200: imagesJson } } }, async () => ({ images: await images.list() }))

  app.get('/images/:image', { schema: { params, response: { 200: imageJson } } }, (request) => {
    const { name, version } = request.params.image
    return images.get(name, version)
  })

  app.post(
    '/images',
    { schema: { act: 'image.add', body: addImageBody, response: { 201: imageJson } } },
    async (request, reply) => {
      leadership.require()
      return reply.code(201).send(await images.add(request.body, noteOf(request)))
    },
  )

  for (const verb of ['use', 'retire'] as const) {
    app.post(
      `/images/:image/${verb}`,
      { schema: { act: `image.${verb}`, params, response: { 200: imageJson } } },
      (request) => {
        leadership.require()
        const { name, version } = request.params.image
        return images[verb](name, version, noteOf(request))
      },
    )
  }
}
