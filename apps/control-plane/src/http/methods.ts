// A known path with a method that it does not take: 405, with the methods that it takes.
import { refusals, refuse } from '@dormouse/contract'
import type { App } from './app.ts'

/** Route patterns and their methods. */
export type KnownPaths = Map<string, Set<string>>

/** Records every route registered from now on, in this scope and those within it. */
export function notePaths(app: App): KnownPaths {
  const paths: KnownPaths = new Map()
  app.addHook('onRoute', ({ url, method }) => {
    const methods = paths.get(url) ?? new Set<string>()
    for (const name of [method].flat()) methods.add(name)
    paths.set(url, methods)
  })
  return paths
}

/** Registers 405 for all other methods of the known paths below the scope's prefix, after authentication. */
export function refuseOtherMethods(scope: App, paths: KnownPaths): void {
  // A plugin runs when its scope is complete.
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
    schema: { hide: true, act: false, right: null },
    // Before the body is read.
    onRequest: async (_request, reply) => {
      reply.header('allow', allow)
      refuse('method_not_allowed', refusals.method_not_allowed.detail({ allow }))
    },
    handler: () => undefined,
  })
}
