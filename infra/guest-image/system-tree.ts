// Folders into which packages are unpacked without being installed.

import { mkdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'

/** Creates a tree in which /bin, /sbin and /lib are links into /usr, as in every current distribution. */
export function systemTree(root: string): string {
  for (const each of ['bin', 'sbin', 'lib', 'lib64']) {
    mkdirSync(join(root, 'usr', each), { recursive: true })
    symlinkSync(`usr/${each}`, join(root, each))
  }
  return root
}
