// The page of states, from the tables that move them.
import { desktopStates, operationKinds, operationStates } from '@dormouse/contract'
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
    `\`\`\`mermaid\n${diagram()}\n\`\`\`\n`,
    '## Operations\n',
    `${operationStates.map(code).join(' · ')}\n`,
    '```mermaid\nstateDiagram-v2\n  [*] --> pending: accepted\n  pending --> running: a leader takes it up',
    '  running --> succeeded\n  running --> failed: taken back, or superseded by destroy\n  pending --> failed: superseded by destroy\n```\n',
  ].join('\n')
}

const rows = (): string[][] =>
  desktopStates.map((state) => [
    code(state),
    ...operationKinds.map((kind) => (permits(kind, state) ? `→ ${code(transitions[kind].via)}` : '')),
  ])

function diagram(): string {
  const asked = operationKinds.flatMap((kind) => {
    const { from, via, done } = transitions[kind]
    return [...from.map((state) => `${state} --> ${via}: ${kind}`), `${via} --> ${done}`]
  })
  return ['stateDiagram-v2', ...['[*] --> created', ...asked, 'destroyed --> [*]'].map((line) => `  ${line}`)].join(
    '\n',
  )
}
