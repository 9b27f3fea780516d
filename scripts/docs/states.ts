// Generates docs/states.md from the tables that the state machine uses.
import { desktopStates, operationStates, requestKinds } from '@dormouse/contract'
import { inProgress, isLegal, removalChanges, transitions } from '@dormouse/control-plane/desktops/states.ts'
import { code, head, table } from './markdown.ts'

export function statesPage(): string {
  return [
    head('States', '`apps/control-plane/src/desktops/states.ts`'),
    '## Desktops\n\nThe requests that each state allows. Any other request gets 409 `wrong_state`.\n',
    `${table(['state', ...requestKinds], rows())}\n`,
    `- **In progress.** In ${alternatives(inProgress.map(code))}, an operation is in progress. The state changes when it`,
    '  settles, or when a destroy supersedes it.',
    '- **Failed operations.** A failed operation leaves the desktop in a true state that allows another attempt.',
    '- **Hosts.** If the host reports a different state, an `awake` desktop becomes `stopped` or `hibernated`. A `hibernated`',
    '  desktop becomes `stopped` if its saved memory has been used.',
    '- **`failed`.** No operation makes a desktop `failed`. An operator does, by removing a host for good (`dormouse admin',
    '  host remove`), or by declaring it lost (`--lost`). Each desktop whose only disk was there becomes `failed`: its data is',
    '  lost, and `failure` in its record says so. It can only be destroyed. A desktop whose first wake was still in progress',
    '  has no disk yet, and becomes `created` again. If a lost host comes back and is returned (`dormouse admin host return`),',
    '  the desktops that it still has become `hibernated` or `stopped`.\n',
    `\`\`\`mermaid\n${diagram()}\n\`\`\`\n`,
    '## Operations\n',
    `${operationStates.map(code).join(' · ')}\n`,
    '```mermaid\nstateDiagram-v2\n  [*] --> pending: accepted\n  pending --> running: a leader starts it',
    '  running --> succeeded\n  running --> failed: undone, or superseded by a destroy or by the removal of its host\n  pending --> failed: superseded by a destroy or by the removal of its host\n```\n',
  ].join('\n')
}

const rows = (): string[][] =>
  desktopStates.map((state) => [
    code(state),
    ...requestKinds.map((kind) => (isLegal(kind, state) ? `→ ${code(transitions[kind].via)}` : '')),
  ])

const alternatives = (words: string[]): string => words.join(', ').replace(/, ([^,]*)$/, ' or $1')

function diagram(): string {
  const asked = requestKinds.flatMap((kind) => {
    const { from, via, done } = transitions[kind]
    return [...from.map((state) => `${state} --> ${via}: ${kind}`), `${via} --> ${done}`]
  })
  const lost = removalChanges.failed.map((state) => `${state} --> failed: its host is removed`)
  return [
    'stateDiagram-v2',
    ...['[*] --> created', ...asked, ...lost, 'destroyed --> [*]'].map((line) => `  ${line}`),
  ].join('\n')
}
