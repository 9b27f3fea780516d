// Serves the viewer page and its files to anyone: only the token in a link opens a screen.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { id, refuse, refuseNotFound, streamClaim } from '@dormouse/contract'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { App } from '../http/app.ts'

const params = z.object({ id, claim: streamClaim })

/** Beside the bundle, or in the build output of the sources. */
const folders = ['./viewer', '../../../viewer/dist'].map((path) => fileURLToPath(new URL(path, import.meta.url)))

const types: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
}

/** Nothing from other origins, no frames, nothing inline. noVNC draws pictures from data URLs. */
const policy = (host: string): string =>
  [
    `default-src 'none'`,
    `script-src 'self'`,
    `style-src 'self'`,
    `img-src 'self' data:`,
    // Not every browser accepts 'self' for WebSockets.
    `connect-src 'self' ws://${host} wss://${host}`,
    `base-uri 'none'`,
    `form-action 'none'`,
    `frame-ancestors 'none'`,
  ].join('; ')

/** A person's browser gets the page also for a link that was cut or changed on its way: it shows that, and what to do. */
const isForPeople = ({ headers }: FastifyRequest): boolean => headers.accept?.includes('text/html') ?? false

/** Serves the page at every screen's URL, and its files. */
export function serveScreenPage(app: App): void {
  const page = (request: FastifyRequest, reply: FastifyReply) =>
    send(reply, 'index.html', {
      'content-security-policy': policy(hostOf(request)),
      'cross-origin-opener-policy': 'same-origin',
      'cache-control': 'no-store',
    })
  app.get('/screens/:id/:claim', { schema: { hide: true } }, (request, reply) =>
    params.safeParse(request.params).success || isForPeople(request) ? page(request, reply) : refuseNotFound(),
  )
  for (const path of ['/screens', '/screens/*'])
    app.get(path, { schema: { hide: true } }, (request, reply) =>
      isForPeople(request) ? page(request, reply) : refuse('no_such_route'),
    )
  app.get('/screens/icon.svg', { schema: { hide: true } }, (_request, reply) => send(reply, 'icon.svg'))
  app.get(
    '/screens/assets/:name',
    { schema: { hide: true, params: z.object({ name: z.string() }) } },
    (request, reply) => {
      const { name } = request.params
      if (!assets().includes(name)) refuseNotFound()
      // File names contain a hash of the content.
      return send(reply, join('assets', name), { 'cache-control': 'public, max-age=31536000, immutable' })
    },
  )
}

function send(reply: FastifyReply, path: string, headers: Record<string, string> = {}): FastifyReply {
  const bytes = readFileSync(join(folder(), path))
  return reply
    .headers(headers)
    .type(types[extname(path)] ?? 'application/octet-stream')
    .header('referrer-policy', 'no-referrer')
    .header('x-content-type-options', 'nosniff')
    .send(bytes)
}

const assets = (): string[] => readdirSync(join(folder(), 'assets'))

function folder(): string {
  const found = folders.find((path) => existsSync(join(path, 'index.html')))
  return found ?? refuse('not_found', 'the viewer page is not built; run `npm run build`')
}

/** The request's host, if it is safe to put into the policy. */
const hostOf = ({ host }: FastifyRequest): string => (/^[\w.:[\]-]+$/.test(host) ? host : 'invalid')
