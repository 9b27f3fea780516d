// docs/performance.md, from bench/results.json.
import { type Recorded, type Results, readResults, type ScaleRun } from '../../../test/bench/results.ts'
import { head } from '../markdown.ts'
import { largeTables, scaleTable, subjectTable } from './figures.ts'
import { limits } from './limits.ts'

const intro = `Absolute figures depend on the machine, so every figure stands beside its floor: the least program that can do
the same work, measured in the same run, in turn with the service. Hosts, control plane, Postgres, floor and load generator
share the machine.

- \`npm run bench\` measures the service beside its floors; \`npm run bench -- --list\` lists the subjects.
- \`npm run bench -- --against FOLDER\` measures another checkout in the same turns: the columns *before*.
- \`npm run bench:scale\` measures up to 1,000 hosts and 20,000 desktops, and large tables.
- \`--record\` writes the figures to \`bench/results.json\`; \`npm run docs\` then writes this page.

Figures are medians of all rounds, with the least and the greatest in brackets.`

const floors = `| floor | what it is |
| --- | --- |
| two-statement transactions | \`begin\`, insert an operation, update its desktop, \`commit\`, over bare \`pg\` on the same Postgres; each writer has its own rows |
| five-statement transactions | the same with a fence, a row lock and one more insert |
| Fastify with pg | bare Fastify: a key looked up in memory, one query, its rows as JSON |
| libvirt | the same calls over \`packages/node-libvirt\`, on a twin of the desktop |
| QEMU | the same over QMP, without libvirt |
| \`cp\` | a copy of the memory image |
| SSH | one connection to the twin’s SSH server, over the same virtio-serial port |
| QEMU’s VNC socket | the screen without agent and control plane |`

/** The page, from what was recorded last. */
export function performancePage(): string {
  const results = readResults()
  const subjects = results.bench.map(
    (recorded) => `## ${titles[recorded.subject] ?? recorded.subject}\n\n${section(recorded)}`,
  )
  const parts = [
    head('Performance', '`bench/results.json`').trimEnd(),
    intro,
    measuredOn(results),
    '## The floors',
    floors,
    ...subjects,
    ...(results.scale ? [scaleSection(results.scale)] : []),
    '## What limits it',
    limits,
  ]
  return `${parts.join('\n\n')}\n`
}

const titles: Record<string, string> = {
  operations: 'Operations on simulated hosts',
  durability: 'What one operation writes',
  creates: 'Creates',
  reads: 'Reads',
  memory: 'Memory',
  failover: 'Failover',
  power: 'Power of real guests',
  'first-wakes': 'First wakes',
  guest: 'Commands and files in real guests',
  terminals: 'Terminals and output',
  moves: 'Moves between hosts',
  screens: 'Screens',
  neighbours: 'Neighbours',
}

const section = (recorded: Recorded): string => `${capital(recorded.what)}.\n\n${subjectTable(recorded)}`

function scaleSection(scale: ScaleRun): string {
  const about: Record<string, string> = {
    storm: 'A storm: every desktop is woken, all sent at once by 512 callers',
    steady: 'A steady day: 300 requests per second, of which 5 % are wakes and hibernations',
    one: 'One operation, while nothing else happens',
    leader: 'kill -9 of the leader while hibernations are in flight, with a standby',
    return: 'A power cut of one host with 500 desktops',
    cut: 'A power cut of up to 50 hosts while wakes are in flight on them',
  }
  const names = Object.keys(about).filter((name) => scale.sizes.some(({ figures }) => figures[name]))
  return [
    '## Scale',
    `Real agents on the simulated driver, 250 to a process, over real WebSockets; real control plane, real Postgres. Measured on ${scale.date.slice(0, 10)}${scale.commit ? ` at ${scale.commit}` : ''}.`,
    ...names.map((name) => `### ${about[name]}\n\n${scaleTable(scale, name)}`),
    ...(Object.keys(scale.tables).length > 0 ? [`### Large tables\n\n${largeTables(scale)}`] : []),
  ].join('\n\n')
}

function measuredOn({ bench, scale }: Results): string {
  const [first] = bench
  const machine = first?.machine ?? scale?.machine
  if (!machine) return 'Nothing was recorded yet.'
  const { cores, processor, memoryGiB, kernel, node, postgres, qemu, fsyncMs } = machine
  const dates = [...new Set(bench.map(({ date }) => date.slice(0, 10)))].sort()
  const commits = [...new Set(bench.map(({ commit }) => commit).filter(Boolean))]
  const compared = [...new Set(bench.map(({ beforeCommit }) => beforeCommit).filter(Boolean))]
  return [
    `Measured on ${dates.join(', ')}, at ${commits.join(', ')}${compared.length > 0 ? `, compared with ${compared.join(', ')}` : ''}.`,
    `Machine: ${cores} cores (${processor}), ${memoryGiB} GiB, Linux ${kernel}, Node ${node}, Postgres ${postgres}${qemu ? `, QEMU ${qemu}` : ''}; an fsync of 4 KiB takes ${fsyncMs} ms.`,
  ].join(' ')
}

const capital = (words: string): string => words.charAt(0).toUpperCase() + words.slice(1)
