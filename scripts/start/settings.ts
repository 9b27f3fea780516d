// The settings of the programs of a run: which variables of our own environment each gets, and which are unknown.
import { configSchema as agent } from '@dormouse/agent/config.ts'
import { unknownVariables } from '@dormouse/contract'
import { configSchema as controlPlane } from '@dormouse/control-plane/config.ts'
import { describeConfig } from '@dormouse/process'

type Env = Readonly<Record<string, string | undefined>>

const namesOf = {
  controlPlane: describeConfig(controlPlane).map(({ name }) => name),
  agent: describeConfig(agent).map(({ name }) => name),
}
const ofStart = ['PORT', 'DATABASE_URL', 'DORMOUSE_DATA', 'DORMOUSE_IMAGES_DIR']
/** Variables of the command line, the drain script and the tests, which people keep in the same shell. */
const ofOthers = ['URL', 'API_KEY', 'OPERATOR_KEY', 'CLI', 'TEST_LONG', 'TEST_KERNEL_OF'].map(
  (name) => `DORMOUSE_${name}`,
)

/** The settings of that program which begin with `DORMOUSE_`. They win over the defaults of a run. */
export function ownSettings(program: keyof typeof namesOf, env: Env = process.env): Record<string, string> {
  const set = namesOf[program].filter((name) => name.startsWith('DORMOUSE_') && env[name])
  return Object.fromEntries(set.map((name) => [name, env[name]!]))
}

/** A sentence for each variable that no program has. */
export const unknownSettings = (env: Env): string[] =>
  unknownVariables(env, [...ofStart, ...namesOf.controlPlane, ...namesOf.agent], ofOthers)
