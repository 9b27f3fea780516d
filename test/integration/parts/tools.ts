// Tools of the distribution that a test needs and that no other does. A machine may lack them.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { TestContext } from 'vitest'

/** Skips the test if one is not installed, and says which. */
export function requireTools(context: TestContext, ...names: string[]): void {
  const missing = names.filter((name) => !['/usr/bin', '/usr/sbin'].some((folder) => existsSync(join(folder, name))))
  context.skip(missing.length > 0, `not installed here: ${missing.join(', ')}`)
}
