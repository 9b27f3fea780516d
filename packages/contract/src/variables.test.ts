// Guarantee: a variable that was meant as a setting is named, with what it probably means; everybody else's are left alone.
import { expect, test } from 'vitest'
import { unknownVariables } from './variables.ts'

const controlPlane = ['DATABASE_URL', 'PORT', 'DORMOUSE_HOST', 'DORMOUSE_PUBLIC_URL', 'OIDC_ISSUER', 'OIDC_ORG_CLAIM']
const agent = ['DORMOUSE_AGENT_STATE_DIR', 'DORMOUSE_AGENT_NAME']

const ignored = 'is not a setting of this program and is ignored'

test.each([
  ['DORMOUSE_PUBLIC_ULR', controlPlane, '; did you mean "DORMOUSE_PUBLIC_URL"?'],
  ['DORMOUSE_PUBLICURL', controlPlane, '; did you mean "DORMOUSE_PUBLIC_URL"?'],
  ['DORMUOSE_HOST', controlPlane, '; did you mean "DORMOUSE_HOST"?'],
  ['dormouse_host', controlPlane, '; did you mean "DORMOUSE_HOST"?'],
  ['DORMOUSE_FROBNICATE', controlPlane, ''],
  ['DORMOUSE_', controlPlane, ''],
  ['OIDC_ORG_CLAIMS', controlPlane, '; did you mean "OIDC_ORG_CLAIM"?'],
  ['DORMOUSE_AGENT_STATEDIR', agent, '; did you mean "DORMOUSE_AGENT_STATE_DIR"?'],
  ['DORMOUSE_STATE_DIR', agent, '; did you mean "DORMOUSE_AGENT_STATE_DIR"?'],
])('%s', (name, known, hint) => {
  expect(unknownVariables({ [name]: 'x', PATH: '/bin' }, known)).toEqual([`${name} ${ignored}${hint}`])
})

test('what is known, empty, of another program or of nobody here is not named', () => {
  const env = {
    DORMOUSE_HOST: 'x',
    DORMOUSE_PUBLIC_ULR: '',
    DORMOUSE_AGENT_NAME: 'x',
    DATABASE_NAME: 'x',
    HOME: 'x',
    MOUSE_PORT: 'x',
  }
  expect(unknownVariables(env, controlPlane, agent)).toEqual([])
})
