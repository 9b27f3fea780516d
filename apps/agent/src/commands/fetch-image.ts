// The host begins to fetch an image, or to make a template of one that it has. Both outlive the command.
import { imageFolderName } from '@dormouse/contract'
import type { Templates } from '../desktops/templates.ts'
import type { ImageFetcher } from '../images/fetcher.ts'
import type { CommandHandler } from './handler.ts'

interface Deps {
  fetcher: Pick<ImageFetcher, 'begin'>
  templates: Pick<Templates, 'wantAhead'>
}

export const fetchImage: CommandHandler<'image.fetch', Deps> = async ({ fetcher, templates }, { template, ...ref }) => {
  await fetcher.begin(ref)
  if (template) templates.wantAhead(ref.digest, { ...template, imageVersion: imageFolderName(ref) })
  return {}
}
