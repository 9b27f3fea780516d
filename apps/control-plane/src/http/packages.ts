// The first page of a service, and the npm packages of its own version, so that nobody needs a registry. Anybody may have them.
import { createReadStream, existsSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { refuse } from '@dormouse/contract'
import type { FastifyRequest } from 'fastify'
import type { App } from './app.ts'

/** Beside the bundle, or in the build output of the sources. */
const folders = ['./sdk', '../../dist/sdk'].map((path) => fileURLToPath(new URL(path, import.meta.url)))

const packageNames = ['client', 'dormouse', 'mcp'] as const

const policy = `default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`

/** Serves `/` and `/sdk/<name>.tgz`. */
export function servePackages(app: App): void {
  app.get('/', { schema: { hide: true } }, (request, reply) =>
    reply
      .headers({
        'content-security-policy': policy,
        'x-content-type-options': 'nosniff',
        'referrer-policy': 'no-referrer',
        'cache-control': 'no-store',
      })
      .type('text/html; charset=utf-8')
      .send(pageOf(addressOf(request))),
  )
  for (const name of packageNames)
    app.get(`/sdk/${name}.tgz`, { schema: { hide: true } }, (_request, reply) => {
      const file = fileOf(name)
      return reply
        .headers({ 'cache-control': 'no-cache', 'x-content-type-options': 'nosniff' })
        .header('content-length', statSync(file).size)
        .type('application/gzip')
        .send(createReadStream(file))
    })
}

function fileOf(name: string): string {
  const files = folders.map((folder) => join(folder, `${name}.tgz`))
  return (
    files.find((file) => existsSync(file)) ?? refuse('not_found', 'the packages are not built; run `npm run build`')
  )
}

/** As the browser has it, if it is safe to put into a page. */
const addressOf = ({ protocol, host }: FastifyRequest): string =>
  `${protocol}://${/^[\w.:[\]-]+$/.test(host) ? host : 'localhost'}`

/** Plain HTML: what this is, and the first calls with this service's address. */
const pageOf = (baseUrl: string): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Dormouse</title>
<link rel="icon" href="data:,">
<style>
body { font: 16px/1.6 system-ui, sans-serif; max-width: 46rem; margin: 3rem auto; padding: 0 1rem; color: #222; background: #fff }
pre { background: #f4f4f2; padding: .8rem 1rem; overflow-x: auto; border-radius: 6px }
h2 { font-size: 1.05rem; margin-top: 2rem }
@media (prefers-color-scheme: dark) { body { color: #ddd; background: #1b1b1b } pre { background: #2a2a2a } a { color: #9bc4ff } }
</style>
</head>
<body>
<h1>Dormouse</h1>
<p>Remote desktops that sleep and wake. This is the address of a service. You need an API key of it.</p>
<h2>Command line</h2>
<pre>export DORMOUSE_URL=${baseUrl} DORMOUSE_API_KEY=…
npx ${baseUrl}/sdk/dormouse.tgz create --tier small --wake</pre>
<h2>SDK for JavaScript and TypeScript</h2>
<pre>npm install ${baseUrl}/sdk/client.tgz</pre>
<pre>import { Desktop } from '@dormouse/client'
const desktop = await Desktop.create({ tier: 'small' })
await desktop.wake()
console.log((await desktop.commands.run('uname -a')).stdout)</pre>
<h2>Agents</h2>
<pre>npx ${baseUrl}/sdk/mcp.tgz</pre>
<p>serves desktops as tools over the Model Context Protocol. The service serves them at <code>${baseUrl}/mcp</code>, too.</p>
<h2>HTTP</h2>
<pre>curl -H "Authorization: Bearer $DORMOUSE_API_KEY" ${baseUrl}/v1/desktops</pre>
<p><a href="/docs">All routes</a>, to read and to try. <a href="/v1/openapi.json">OpenAPI document</a>.</p>
</body>
</html>
`
