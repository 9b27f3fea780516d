#!/usr/bin/env node
// The door: plain JavaScript that any Node can read, so that one too old is told so instead of failing on the syntax.
// (So also no named import of what older ones lack.)
import module from 'node:module'
import { fileURLToPath } from 'node:url'

const nodeMin = 24

if (Number.parseInt(process.versions.node, 10) >= nodeMin) {
  // Starts three times as fast. Beside the code, for it is code too: never in a folder that others may write to.
  module.enableCompileCache(fileURLToPath(new URL('../../../node_modules/.cache/dormouse', import.meta.url)))
  import('../src/main.ts').then((cli) => cli.main())
} else {
  console.error(`dormouse needs Node ${nodeMin} or later, and this is ${process.versions.node}.`)
  console.error('Next step: in the clone, `npm install` once, then `npx dormouse …`: it brings its own Node.')
  // As docker does, `exec` keeps 125 for failures of its own: every other code is the guest's.
  process.exitCode = process.argv[2] === 'exec' ? 125 : 1
}
