// The rules of the house about who may import whom, what files are called and how long they are; one function each,
// from a source to sentences that say what is wrong and what to do. Pure; a new room is entered in `floors` below.
import { importsOf, isTest, type Source } from './sources.ts'

export type Rule = (source: Source) => string[]

/** From the ground up. A room opens only rooms on lower floors. */
const floors: Readonly<Record<string, number>> = {
  ...onFloor(-2, ['db']),
  // Whatever changes anything begins with the leader's fence: leadership is part of the ground.
  ...onFloor(-1, ['leadership']),
  ...onFloor(0, ['operations', 'reconcile', 'agents', 'http']),
  ...onFloor(1, ['hosts', 'images', 'ledger', 'principals', 'audit']),
  ...onFloor(2, ['desktops']),
  ...onFloor(3, ['guest', 'streams']),
  ...onFloor(4, ['drains', 'recovery', 'removals', 'idle', 'usage', 'retention']),
  ...onFloor(5, ['main', 'config', 'context', 'app', 'operation-kinds', 'reconcilers', 'report-handlers']),
}
const roof = 5

/** Which of our packages a package may import. */
const packageArrows: Readonly<Record<string, readonly string[]>> = {
  contract: [],
  link: [],
  'node-libvirt': [],
  process: [],
  client: ['contract'],
}

const controlPlane = 'apps/control-plane/src/'
const libvirtDriver = 'apps/agent/src/driver/libvirt/'
const appNames: Readonly<Record<string, string>> = {
  '@dormouse/agent': 'agent',
  '@dormouse/control-plane': 'control-plane',
  '@dormouse/viewer': 'viewer',
  dormouse: 'cli',
}
const emptyNames = new Set(['util', 'utils', 'common', 'helper', 'helpers', 'types'])
const maxLines = 400

/** An app stands alone: what two of them need is said in a package. */
export const appsApart: Rule = (source) => {
  const own = folderIn('apps', source.path)
  if (!own && !folderIn('packages', source.path)) return []
  return importsOf(source)
    .filter((name) => appOf(name) !== undefined && appOf(name) !== own)
    .map(
      (name) =>
        `${source.path} imports ${name}, which is in the app ${appOf(name)}. Nothing imports an app: move what both need into packages/.`,
    )
}

/** A package is entered by its name, and imports no more of ours than its place allows. */
export const packagesInOrder: Rule = (source) => {
  const own = folderIn('packages', source.path)
  const allowed = own === undefined ? undefined : packageArrows[own]
  return importsOf(source).flatMap((name) => {
    const byPath = folderIn('packages', name)
    if (byPath && byPath !== own)
      return [
        `${source.path} reaches into ${name}. Import @dormouse/${byPath} by its name; what it lacks, export from its index.ts.`,
      ]
    const named = ourPackage(name)
    if (own === undefined || named === undefined || named === own || allowed?.includes(named)) return []
    return [
      `${source.path} imports ${name}. ${capital(own)} may import of ours ${allowed?.join(', ') || 'nothing'}: hand it in as a parameter, or move the code up.`,
    ]
  })
}

/** A package that nobody gave a place is not let in by chance. */
export const packagesKnown: Rule = ({ path }) => {
  const own = folderIn('packages', path)
  if (own === undefined || Object.hasOwn(packageArrows, own)) return []
  return [
    `${path} is in packages/${own}, which has no place yet. Enter it in packageArrows in test/structure/rules.ts, and in ARCHITECTURE.md.`,
  ]
}

/** The contract is what is said, and nothing that does: zod only. */
export const contractIsPure: Rule = (source) => {
  if (folderIn('packages', source.path) !== 'contract' || isTest(source)) return []
  return importsOf(source)
    .filter((name) => name !== 'zod' && !name.startsWith('packages/contract/'))
    .map(
      (name) =>
        `${source.path} imports ${name}. The contract imports zod only: move what needs ${name} to the app that does it.`,
    )
}

/** Floors open downwards only. Tests of a room are free. */
export const floorsOpenDownwards: Rule = (source) => {
  const from = roomOf(source.path)
  if (from === undefined || isTest(source)) return []
  if (!Object.hasOwn(floors, from))
    return [
      `${source.path} is in "${from}", which has no floor yet. Enter it in floors in test/structure/rules.ts, and in ARCHITECTURE.md.`,
    ]
  return importsOf(source).flatMap((name) => {
    const to = roomOf(name)
    if (to === undefined || to === from || mayOpen(from, to)) return []
    return [
      `${source.path} imports ${name}: ${from} (${floorName(from)}) may not open ${to} (${floorName(to)}). Move what both need to a room below, what they do together to a room above, or let the roof hand in a function.`,
    ]
  })
}

/** One door to the hypervisor. */
export const oneDoorToLibvirt: Rule = (source) => {
  if (!source.path.startsWith('apps/') || source.path.startsWith(libvirtDriver)) return []
  return importsOf(source)
    .filter((name) => ourPackage(name) === 'node-libvirt')
    .map(
      (name) =>
        `${source.path} imports ${name}. Only ${libvirtDriver} does: say what is needed in driver/driver.ts, and let both drivers do it.`,
    )
}

/** A name says what is inside. */
export const namesSaySomething: Rule = ({ path }) => {
  const parts = path.split('/')
  const file = parts.at(-1) ?? ''
  const empty = parts.filter((part) => emptyNames.has(part.replace(/(?:\.test)?\.ts$/, '')))
  return [
    ...empty.map(
      (part) => `${path}: "${part}" says nothing. Put the code where it is born, under a name of what it does.`,
    ),
    ...(/^[a-z0-9]+(?:-[a-z0-9]+)*(?:\.test|\.config|\.d)?\.ts$/.test(file)
      ? []
      : [`${path}: file names are kebab-case. Rename it.`]),
  ]
}

/** The first comment says what a room is for; a test says it by its name. */
export const startsWithItsRoom: Rule = ({ path, text }) => {
  if (path.endsWith('.test.ts')) return []
  const start = text.replace(/^#!.*\n/, '').trimStart()
  if (start.startsWith('//') || start.startsWith('/*')) return []
  return [`${path} does not start with a comment. Say first what the file is for and what it does not know.`]
}

/** Nobody reads a file of more than 400 lines. */
export const shortEnough: Rule = ({ path, text }) => {
  const lines = text.split('\n').length - (text.endsWith('\n') ? 1 : 0)
  return lines <= maxLines
    ? []
    : [`${path} has ${lines} lines, over ${maxLines}. Take out of it what has a name of its own.`]
}

function onFloor(floor: number, rooms: string[]): Record<string, number> {
  return Object.fromEntries(rooms.map((room) => [room, floor]))
}

function mayOpen(from: string, to: string): boolean {
  const [own, other] = [floors[from] ?? roof, floors[to]]
  // A room without a floor is complained about where it stands.
  return own === roof || other === undefined || other < own
}

function floorName(room: string): string {
  const floor = floors[room]
  if (floor === roof) return 'the roof'
  return floor === -2 ? 'the ground' : `floor ${floor}`
}

/** The folder right under `parent` that the path is in. */
function folderIn(parent: string, path: string): string | undefined {
  const [first, second] = path.split('/')
  return first === parent ? second : undefined
}

/** The folder or roof file of the control plane that the path is in. */
function roomOf(path: string): string | undefined {
  if (!path.startsWith(controlPlane)) return undefined
  return path
    .slice(controlPlane.length)
    .split('/')[0]
    ?.replace(/(?:\.test)?\.ts$/, '')
}

function appOf(name: string): string | undefined {
  return folderIn('apps', name) ?? appNames[packageName(name)]
}

function ourPackage(name: string): string | undefined {
  const [scope, rest] = name.split('/')
  return scope === '@dormouse' ? rest : folderIn('packages', name)
}

function packageName(name: string): string {
  return name
    .split('/')
    .slice(0, name.startsWith('@') ? 2 : 1)
    .join('/')
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}
