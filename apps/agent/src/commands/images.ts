// Commands about images: look at one, fetch one, make a template of one. A fetch outlives its command.
import { type CommandName, imageFolderName } from '@dormouse/contract'
import { FetchReports } from '../desktops/fetch-reports.ts'
import type { SendReport } from '../desktops/report.ts'
import type { Templates } from '../desktops/templates.ts'
import { parseFetchable } from '../images/fetchable.ts'
import type { ImageFetcher } from '../images/fetcher.ts'
import { fetchManifest } from '../images/read-manifest.ts'
import { sourceOf } from '../images/sources.ts'
import type { CommandHandler } from './handler.ts'

interface Deps {
  fetcher: Pick<ImageFetcher, 'begin' | 'ensure'>
  templates: Pick<Templates, 'wantAhead'>
  report: SendReport
}

type Handled = Extract<CommandName, `image.${string}`>

const inspectTimeoutMs = 10_000

export const imageHandlers: { [N in Handled]: CommandHandler<N, Deps> } = {
  /** What is at the source of an image that is about to be registered. */
  'image.inspect': async (_deps, { source }, signal) => {
    const { text, digest } = await fetchManifest(sourceOf(source), signal, inspectTimeoutMs)
    const { name, version, bytes } = parseFetchable(text)
    return { name, version, digest, bytes }
  },

  /** The host begins to fetch an image, or to make a template of one that it has. */
  'image.fetch': async ({ fetcher, templates }, { template, ...ref }) => {
    await fetcher.begin(ref)
    if (template) templates.wantAhead(ref.digest, { ...template, imageVersion: imageFolderName(ref) })
    return {}
  },

  /** The new host of a move has the desktop's image before anything of the desktop comes. A repeat joins the fetch. */
  'image.ensure': async ({ fetcher, report }, { image, ...operation }, signal) => {
    await fetcher.ensure(image, signal, new FetchReports(report, operation).progress)
    return {}
  },
}
