// The new host of a move has the desktop's image before anything of the desktop comes. A fetch outlives the command, and a
// repeat joins it.
import { FetchReports } from '../desktops/fetch-reports.ts'
import type { SendReport } from '../desktops/report.ts'
import type { ImageFetcher } from '../images/fetcher.ts'
import type { CommandHandler } from './handler.ts'

interface Deps {
  fetcher: Pick<ImageFetcher, 'ensure'>
  report: SendReport
}

export const ensureImage: CommandHandler<'image.ensure', Deps> = async (
  { fetcher, report },
  { image, ...operation },
  signal,
) => {
  await fetcher.ensure(image, signal, new FetchReports(report, operation).progress)
  return {}
}
