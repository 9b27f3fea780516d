// The page of states, from the tables that move them.
import { type DesktopState, desktopStates, operationKinds, operationStates } from '@dormouse/contract'
import { passing, permits, transitions } from '@dormouse/control-plane/desktops/states.ts'
import { code, head, table } from './markdown.ts'

export function statesPage(): string {
  return [
    head('States', '`apps/control-plane/src/desktops/states.ts`'),
    '## Desktops\n\nWhat may be asked of a desktop in each state. Anything else is 409 `wrong_state`.\n',
    `${table(['state', ...operationKinds], rows())}\n`,
    `While it is ${passing.map(code).join(' or ')} an operation is under way; only its settling, or a destroy, ends that.`,
    'An operation that fails leaves the desktop in a state that is true, and from which the next attempt is legal. A',
    'host that reports otherwise moves an `awake` desktop to `stopped` or `hibernated`, and a `hibernated` one whose memory\nwas used to `stopped`.\n',
    'No operation makes a desktop `failed`. An operator does, who removes a host for good (`dormouse admin host remove`):',
    'each desktop whose only disk was there is `failed` from then on, its data is lost, and `failure` in its record says',
    'so. It can only be destroyed. One that has no disk yet, because its first wake was under way, is `created` again.\n',
    `\`\`\`mermaid\n${diagram()}\n\`\`\`\n`,
    '## Operations\n',
    `${operationStates.map(code).join(' · ')}\n`,
    '```mermaid\nstateDiagram-v2\n  [*] --> pending: accepted\n  pending --> running: a leader takes it up',
    '  running --> succeeded\n  running --> failed: taken back, or superseded by destroy or by the removal of its host\n  pending --> failed: superseded by destroy or by the removal of its host\n```\n',
  ].join('\n')
}

const rows = (): string[][] =>
  desktopStates.map((state) => [
    code(state),
    ...operationKinds.map((kind) => (permits(kind, state) ? `→ ${code(transitions[kind].via)}` : '')),
  ])

/** The states in which a desktop has a disk that the removal of its host loses. */
const losable: readonly DesktopState[] = ['waking', 'awake', 'hibernating', 'hibernated', 'stopped']

function diagram(): string {
  const asked = operationKinds.flatMap((kind) => {
    const { from, via, done } = transitions[kind]
    return [...from.map((state) => `${state} --> ${via}: ${kind}`), `${via} --> ${done}`]
  })
  const lost = losable.map((state) => `${state} --> failed: its host is removed`)
  return [
    'stateDiagram-v2',
    ...['[*] --> created', ...asked, ...lost, 'destroyed --> [*]'].map((line) => `  ${line}`),
  ].join('\n')
}
