// The customers' routes to a clipboard. HTTP and nothing else.
import { clipboardBody, clipboardJson, clipboardSetJson, id } from '@dormouse/contract'
import { z } from 'zod'
import type { App } from '../http/app.ts'
import { customer } from '../principals/authentication.ts'
import type { Clipboards } from './clipboards.ts'

const params = z.object({ id })

export interface ClipboardRoutesOptions {
  clipboards: Clipboards
}

export function clipboardRoutes(app: App, { clipboards }: ClipboardRoutesOptions): void {
  app.get(
    '/desktops/:id/clipboard',
    {
      schema: {
        operationId: 'readClipboard',
        right: 'use',
        tags: ['Guest'],
        wakes: 'input',
        summary: 'Read the text that was copied last in an awake desktop',
        description:
          'Needs no claim. Refused with `clipboard_unavailable` where the guest shares no clipboard. The text is in no log.',
        params,
        response: { 200: clipboardJson },
        answers: { 200: { what: 'The text', headers: { 'cache-control': '`no-store`' } } },
        problems: [404, 409],
      },
    },
    async (request, reply) => {
      const read = await clipboards.read(customer(request), request.params.id, request.id)
      reply.header('cache-control', 'no-store')
      return read
    },
  )

  app.put(
    '/desktops/:id/clipboard',
    {
      schema: {
        operationId: 'writeClipboard',
        right: 'use',
        tags: ['Guest'],
        wakes: 'input',
        summary: 'Replace the clipboard of an awake desktop',
        description:
          'The guest’s programs paste this text until something else is copied or the desktop sleeps. Borrows the claim `control`, as input does. The text is in no log.',
        params,
        body: clipboardBody,
        response: { 200: clipboardSetJson },
        answers: { 200: 'The guest was offered the text' },
        problems: [403, 404, 409],
      },
    },
    async (request) => clipboards.write(customer(request), request.params.id, request.body, request.id),
  )
}
