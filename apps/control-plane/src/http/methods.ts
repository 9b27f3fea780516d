// A known path asked with a method it does not have: 405, and what it has. Knows no route by itself.
import { refusals, refuse } from '@dormouse/contract'
import type { App } from './app.ts'

/** Paths, as routes write them, and the methods they have. */
export type KnownPaths = Map<string, Set<string>>

/** Notes every route registered from now on, in this scope and those within it. */
export function notePaths(app: App): KnownPaths {
  const paths: KnownPaths = new Map()
  app.addHook('onRoute', ({ url, method }) => {
    const methods = paths.get(url) ?? new Set<string>()
    for (const name of [method].flat()) methods.add(name)
    paths.set(url, methods)
  })
  return paths
}

/** Answers all other methods of the known paths below the scope's prefix, behind the scope's door. */
export function refuseOtherMethods(scope: App, paths: KnownPaths): void {
  // A plugin begins when the scope that it is in is complete.
  scope.register(async (late) => {
    for (const [path, methods] of [...paths]) {
      if (path.startsWith(`${scope.prefix}/`))
        refuseOthers(late as unknown as App, path.slice(scope.prefix.length), methods)
    }
  })
}

function refuseOthers(scope: App, url: string, methods: Set<string>): void {
  const allow = [...methods].sort().join(', ')
  scope.route({
    method: scope.supportedMethods.filter((method) => !methods.has(method)),
    url,
    schema: { hide: true, act: false },
    // Before the body: nobody waits for what nobody reads.
    onRequest: async (_request, reply) => {
      reply.header('allow', allow)
      refuse('method_not_allowed', refusals.method_not_allowed.detail({ allow }))
    },
    handler: () => undefined,
  })
}
