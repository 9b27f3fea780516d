#!/usr/bin/env node
// The entry point: plain JavaScript that any Node can run, so that an old one prints a clear error, not a syntax error.
// For the same reason it imports nothing by name that older ones lack.
import module from 'node:module'
import { fileURLToPath } from 'node:url'

const nodeMin = 24

if (Number.parseInt(process.versions.node, 10) >= nodeMin) {
  // The CLI starts three times as fast. The cache is code: never keep it where others can write.
  module.enableCompileCache(fileURLToPath(new URL('../../../node_modules/.cache/dormouse', import.meta.url)))
  import('../src/main.ts').then((cli) => cli.main())
} else {
  console.error(`dormouse needs Node ${nodeMin} or later, and this is ${process.versions.node}`)
  console.error('Next step: in the clone, run `npm install` once, then `npx dormouse …`, which brings its own Node')
  // As in docker, `exec` uses 125 for its own failures: every other code is the guest's.
  process.exitCode = process.argv[2] === 'exec' ? 125 : 1
}
