// The host begins to fetch an image. The fetch outlives the command.
import type { ImageFetcher } from '../images/fetcher.ts'
import type { CommandHandler } from './handler.ts'

export const fetchImage: CommandHandler<'image.fetch', { fetcher: ImageFetcher }> = async ({ fetcher }, ref) => {
  await fetcher.begin(ref)
  return {}
}
