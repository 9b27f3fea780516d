// The parts list of a package, in the format of CycloneDX.
import { execFileSync } from 'node:child_process'

/** Without what differs each time: when it was made, a random number, and the builder's folder. `more` are parts that npm does not know. */
export function partsOf(root: string, workspace: string, ...more: { name: string; version: string }[]): string {
  const words = ['sbom', '--sbom-format', 'cyclonedx', '--package-lock-only', '--omit', 'dev', '--workspace', workspace]
  const list = JSON.parse(
    execFileSync('npm', words, {
      cwd: root,
      encoding: 'utf8',
      maxBuffer: 2 ** 26,
      stdio: ['ignore', 'pipe', 'pipe'],
    }),
  )
  delete list.serialNumber
  delete list.metadata.timestamp
  const { component } = list.metadata
  // npm calls it as its folder is called.
  component.name = component['bom-ref'].replace(/@[^@]*$/, '')
  list.components.push(...more.map((part) => ({ type: 'application', ...part })))
  return `${JSON.stringify(list, null, 2)}\n`
}
