// Every route once, and every operation from its beginning to its end, so that each of their statements runs. Returns the
// routes of the contract that were used.
import { newId } from '@dormouse/contract'
import type { Stack } from '../stack.ts'

const json = { 'content-type': 'application/json' }

/** As a customer with desktops; the routes of the OpenAPI document that this used, as `GET /v1/desktops/{id}`. */
export async function exerciseCustomer(stack: Stack): Promise<Set<string>> {
  const used = new Set<string>()
  const ask = async (method: string, path: string, body?: object, headers: Record<string, string> = {}) => {
    const answer = await stack.api(method, path, { ...(body && { body }), headers })
    // What is not implemented answers 501.
    if (answer.status >= 500 && answer.status !== 501)
      throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`)
    used.add(
      `${method} ${path
        .split('?')[0]!
        .replace(/[0-9a-f]{8}-[0-9a-f-]{27}/, '{id}')
        .replace(/files\/.*/, 'files/{path}')
        .replace(/wake-locks\/.*/, 'wake-locks/{name}')}`,
    )
    return answer
  }
  const made = await ask('POST', '/v1/desktops', { tier: 'small' }, { 'idempotency-key': newId() })
  const at = `/v1/desktops/${made.json.id}`
  const { json: woken } = await ask('POST', `${at}/wake?wait=true`, undefined, { 'idempotency-key': newId() })
  await ask('POST', `${at}/exec`, { command: 'true' })
  await ask('PUT', `${at}/files/srv/word`, { a: 'word' }, json)
  await ask('GET', `${at}/files/srv/word`)
  await ask('POST', `${at}/stream`, { claim: 'control' })
  await ask('GET', `${at}/screenshot`)
  await ask('POST', `${at}/hibernate?wait=true`)
  await ask('POST', `${at}/wake?wait=true`)
  await ask('GET', at)
  await ask('GET', `${at}/operations`)
  await ask('PATCH', at, { idle_timeout_secs: 600 })
  await ask('PUT', `${at}/wake-locks/build`, { reason: 'a build', expires_in_secs: 60 })
  await ask('GET', `${at}/idle`)
  await ask('DELETE', `${at}/wake-locks/build`)
  await ask('GET', `/v1/operations/${woken.id}`)
  await ask('POST', `${at}/fork`)
  await ask('POST', `${at}/destroy?wait=true`)
  for (const query of ['limit=100', 'limit=100&state=awake', `limit=100&cursor=${made.json.id}`, 'state=hibernated'])
    await ask('GET', `/v1/desktops?${query}`)
  const from = new Date(Date.now() - 3_600_000).toISOString()
  await ask('GET', `/v1/usage?from=${from}&to=${new Date().toISOString()}`)
  await ask('GET', `/v1/usage?desktop_id=${made.json.id}`)
  await ask('GET', '/v1/quotas')
  await ask('GET', '/v1/openapi.json')
  return used
}

/** As an operator. */
export async function exerciseAdmin(stack: Stack, operatorKey: string): Promise<void> {
  const ask = async (method: string, path: string, body?: object) => {
    const answer = await stack.api(method, `/admin/v1${path}`, { key: operatorKey, ...(body && { body }) })
    if (answer.status >= 500) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`)
    return answer.json
  }
  const { id: org } = await ask('POST', '/orgs', { name: 'exercised' })
  await ask('GET', '/orgs')
  await ask('PATCH', `/orgs/${org}`, { max_desktops: 10 })
  await ask('PUT', `/orgs/${org}/quotas/exercised`, { select: 'team=qa', max_desktops: 10 })
  await ask('GET', `/orgs/${org}/quotas`)
  await ask('DELETE', `/orgs/${org}/quotas/exercised`)
  const { id: key } = await ask('POST', '/keys', { org_id: org, name: 'exercised' })
  await ask('GET', `/keys?org_id=${org}`)
  await ask('DELETE', `/keys/${key}`)
  await ask('POST', '/hosts/invites', {})
  await ask('GET', '/hosts')
  await ask('GET', `/hosts/${stack.host.name}/removal`)
  await ask('GET', '/audit')
  await ask('GET', `/audit?subject=${org}`)
  await ask('GET', '/deferred-commands')
  await ask('GET', '/desktops?limit=100')
  await ask('GET', '/desktops?limit=100&state=awake')
  const { id: desktop } = await stack.desktop('awake')
  const { json: operation } = await stack.api('GET', `/v1/desktops/${desktop}/operations`)
  await ask('GET', `/operations/${operation.operations[0].id}`)
  await ask('POST', `/desktops/${desktop}/hibernate?wait=true`, {})
  await stack.ask(desktop, 'destroy')
}
