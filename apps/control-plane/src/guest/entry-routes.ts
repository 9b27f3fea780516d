// Customers' routes to the entries of a guest's file system. HTTP and nothing else.
import { changedEntryJson, changeEntryBody, entriesJson, entriesQuery, id } from '@dormouse/contract'
import { z } from 'zod'
import type { App } from '../http/app.ts'
import { askingOf } from './asking.ts'
import type { Entries } from './entries.ts'

const params = z.object({ id })

export function entryRoutes(app: App, { entries }: { entries: Entries }): void {
  app.get(
    '/desktops/:id/entries',
    {
      schema: {
        operationId: 'listEntries',
        right: 'use',
        tags: ['Guest'],
        wakes: 'files',
        summary: 'List a folder of an awake desktop, or read the entry of a path',
        description:
          'In byte order of the paths, page by page. A page may have fewer entries than `limit`. Entries that appear or disappear meanwhile may or may not be in it.',
        params,
        querystring: entriesQuery,
        response: { 200: entriesJson },
        answers: { 200: 'A page of entries' },
        problems: [404, 409, 504],
      },
    },
    (request) => entries.list(askingOf(request), request.query),
  )

  app.post(
    '/desktops/:id/entries',
    {
      schema: {
        operationId: 'changeEntry',
        right: 'use',
        tags: ['Guest'],
        wakes: 'files',
        summary: 'Create a folder in an awake desktop, or move, copy or remove an entry, or change its mode',
        description:
          'A file or folder that is moved or copied appears whole, unless it is moved to another file system of the guest. Links are not followed, except by `chmod`.',
        params,
        body: changeEntryBody,
        response: { 200: changedEntryJson },
        answers: { 200: 'It is done' },
        problems: [404, 409, 504],
      },
    },
    (request) => entries.change(askingOf(request), request.body),
  )
}
