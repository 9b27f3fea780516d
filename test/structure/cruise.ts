// Runs dependency-cruiser over a tree. Knows no rule.
import { registerHooks } from 'node:module'
import type { ICruiseResult, IForbiddenRuleType } from 'dependency-cruiser'

/** A forbidden import, or a circle. */
export interface Violation {
  rule: string
  from: string
  /** What imports what, which rule forbids it, and what to do. */
  sentence: string
}

/** The imports below the folders that a rule forbids. Type imports count as any other. */
export async function violations(
  root: string,
  folders: string[],
  forbidden: IForbiddenRuleType[],
): Promise<{ files: string[]; found: Violation[] }> {
  const cruise = await loadCruise()
  const { output } = await cruise(folders, {
    baseDir: root,
    parser: 'tsc',
    tsPreCompilationDeps: true,
    doNotFollow: { path: '(^|/)node_modules/' },
    exclude: { path: '(^|/)(dist|\\.[^./][^/]*)/' },
    moduleSystems: ['es6'],
    skipAnalysisNotInRules: true,
    enhancedResolveOptions: { exportsFields: ['exports'], conditionNames: ['import', 'types', 'node', 'default'] },
    validate: true,
    ruleSet: { forbidden },
  })
  const { modules, summary } = output as ICruiseResult
  const comments = new Map(forbidden.map(({ name, comment }) => [name, comment]))
  const found = summary.violations.map(({ rule: { name }, from, to, cycle }) => {
    const path = [from, ...(cycle?.map(({ name }) => name) ?? [to])].join(' → ')
    return { rule: name, from, sentence: `${path} (${name}): ${comments.get(name)}` }
  })
  return { files: modules.map(({ source }) => source), found }
}

/** dependency-cruiser reads TypeScript with the compiler's old API, which TypeScript 7 no longer has: it gets version 6. */
async function loadCruise() {
  const hooks = registerHooks({
    resolve: (name, context, next) => next(name.replace(/^typescript(?=\/|$)/, '@typescript/typescript6'), context),
  })
  try {
    const { cruise } = await import('dependency-cruiser')
    // Its parts are loaded by the first run.
    await cruise([], { parser: 'tsc' }).catch(() => {})
    return cruise
  } finally {
    hooks.deregister()
  }
}
