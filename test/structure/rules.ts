// Who may import whom: the layers of the programs, the order of the packages, and no circles. Data for dependency-cruiser;
// a new module is entered in the layers below, and in ARCHITECTURE.md.
import type { IRegularForbiddenRuleType } from 'dependency-cruiser'

/** The modules in the `src` folder of one program, from the bottom up. The topmost layer, the wiring, may import anything. */
export interface LayerPlan {
  src: string
  layers: readonly (readonly string[])[]
}

export const layerPlans: readonly LayerPlan[] = [
  {
    src: 'apps/control-plane/src',
    layers: [
      ['db'],
      // Every write begins with the leader's fence, so leadership lies below all that writes.
      ['leadership'],
      // Operations wait for what the log of events says.
      ['events'],
      ['operations', 'reconcile', 'agents', 'http', 'alarms'],
      ['hosts', 'images', 'ledger', 'principals', 'audit', 'activity'],
      ['desktops'],
      ['guest', 'streams'],
      [
        'recovery',
        'removals',
        'bulk',
        'copies',
        'drains',
        'figures',
        'upgrades',
        'usage',
        'retention',
        'listeners',
        'idle',
        'schedules',
        'suspensions',
        'wake-on-use',
        'webhooks',
        'input',
        'keys',
        'mcp',
        'quotas',
        'terminals',
      ],
      ['telemetry'],
      [
        'main',
        'check',
        'config',
        'context',
        'modules',
        'wings',
        'client-limits',
        'app',
        'operation-kinds',
        'reconcilers',
        'report-handlers',
      ],
    ],
  },
  {
    src: 'apps/agent/src',
    layers: [
      ['mechanics'],
      ['images', 'enrolment', 'streams', 'transfer', 'upgrades', 'vaults'],
      ['driver'],
      ['scripts'],
      ['ssh', 'guest-agent'],
      ['guest', 'input'],
      ['desktops'],
      ['moves'],
      ['copies'],
      ['commands'],
      ['telemetry'],
      [
        'main',
        'config',
        'context',
        'parts',
        'make-driver',
        'control',
        'hello',
        'facts',
        'image-facts',
        'periodic',
        'enrol-command',
        'check-command',
        'read-secret',
        'testing',
      ],
    ],
  },
]

/** Which of our packages a package may import. */
export const packageArrows: Readonly<Record<string, readonly string[]>> = {
  contract: [],
  link: [],
  'node-libvirt': [],
  process: [],
  client: ['contract'],
  mcp: ['client', 'contract'],
}

const tests = '(\\.test\\.ts$|/testing/)'

const arrows: Omit<IRegularForbiddenRuleType, 'severity'>[] = [
  {
    name: 'no circles',
    comment: 'move what both need into a file below them; an import of a type counts',
    from: {},
    to: { circular: true },
  },
  {
    name: 'imports resolve',
    comment: 'correct the path, or add the package',
    from: {},
    to: { couldNotResolve: true },
  },
  {
    name: 'apps stand alone',
    comment: 'no app imports another; move what both need into packages/',
    from: { path: '^apps/([^/]+)/' },
    to: { path: '^apps/', pathNot: '^apps/$1/' },
  },
  {
    name: 'no package imports an app',
    comment: 'move what both need into packages/',
    from: { path: '^packages/' },
    to: { path: '^apps/' },
  },
  {
    name: 'packages are imported by name',
    comment: 'import @dormouse/…; export from its index.ts what it lacks',
    from: { path: '^([^/]+/[^/]+)/' },
    to: { path: '^packages/', pathNot: '^$1/', dependencyTypes: ['local'], dependencyTypesNot: ['aliased-workspace'] },
  },
  {
    name: 'the contract imports only zod',
    comment: 'the contract only describes; move what needs more to the app that does it',
    from: { path: '^packages/contract/', pathNot: tests },
    to: { pathNot: '^(packages/contract|node_modules/zod)/' },
  },
  {
    name: 'one door to libvirt',
    comment: 'only driver/libvirt/ imports it; add what you need to driver/driver.ts and to both drivers',
    from: { path: '^apps/', pathNot: '^apps/agent/src/driver/libvirt/' },
    to: { path: '^packages/node-libvirt/' },
  },
  ...Object.entries(packageArrows).map(([name, allowed]) => ({
    name: `what ${name} may import`,
    comment: `of ours, ${allowed.join(', ') || 'nothing'}; pass it as a parameter, or move the code up`,
    from: { path: `^packages/${name}/` },
    to: { path: '^packages/', pathNot: `^packages/(${[name, ...allowed].join('|')})/` },
  })),
  ...layerPlans.flatMap(({ src, layers }) =>
    layers.slice(0, -1).map((modules, layer) => ({
      name: `what layer ${layer} of ${src} may import`,
      comment: `${modules.join(', ')} may import lower layers only; move what both need to a module below, what they do together to a module above, or let the wiring pass a function in`,
      from: { path: `^${src}/(${modules.join('|')})[/.]`, pathNot: tests },
      to: { path: `^${src}/`, pathNot: `^${src}/(${['$1', ...layers.slice(0, layer).flat()].join('|')})[/.]` },
    })),
  ),
]

export const forbidden: IRegularForbiddenRuleType[] = arrows.map((arrow) => ({ ...arrow, severity: 'error' }))
