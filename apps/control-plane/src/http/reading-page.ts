// A page to read and try the API on, at `/docs`: Swagger UI over our own document, served from here, asking nobody else.
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { App } from './app.ts'

/** Nothing from elsewhere, nothing framed. Swagger UI writes style attributes, which need `unsafe-inline` for styles only. */
const policy = [
  `default-src 'none'`,
  `script-src 'self'`,
  `style-src 'self' 'unsafe-inline'`,
  `img-src 'self' data:`,
  `connect-src 'self'`,
  `base-uri 'none'`,
  `form-action 'none'`,
  `frame-ancestors 'none'`,
].join('; ')

const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Dormouse API</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/docs/swagger-ui.css">
</head>
<body>
<div id="api"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
`

/** Keys stay in the page's memory; the validator badge would send the document elsewhere. */
const start = `SwaggerUIBundle({
  url: '/v1/openapi.json',
  dom_id: '#api',
  deepLinking: true,
  validatorUrl: null,
  persistAuthorization: false,
  displayRequestDuration: true,
  defaultModelsExpandDepth: 0,
})
`

/** Serves the page to anybody: it shows the document, which anybody may read. */
export function serveReadingPage(app: App): void {
  const folder = assetFolder()
  const asset = (name: string) => readFileSync(join(folder, name), 'utf8')
  serve(app, '/docs', 'text/html; charset=utf-8', () => page)
  serve(app, '/docs/start.js', 'text/javascript; charset=utf-8', () => start)
  for (const name of ['swagger-ui-bundle.js', 'swagger-ui.css']) {
    const type = name.endsWith('.css') ? 'text/css; charset=utf-8' : 'text/javascript; charset=utf-8'
    serve(app, `/docs/${name}`, type, () => asset(name))
  }
}

/** Read when first requested: on most servers it never is. */
function serve(app: App, url: string, type: string, read: () => string): void {
  let text: string | undefined
  app.get(url, { schema: { hide: true } }, async (_request, reply) => {
    text ??= read()
    return reply
      .headers({
        'content-security-policy': policy,
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
        'cache-control': 'public, max-age=300',
      })
      .type(type)
      .send(text)
  })
}

/** Next to the program if it is bundled, else in the package that they come from. */
function assetFolder(): string {
  const bundled = fileURLToPath(new URL('./docs/', import.meta.url))
  if (existsSync(bundled)) return bundled
  return dirname(fileURLToPath(import.meta.resolve('@fastify/swagger-ui/static/swagger-ui.css')))
}
