// Guarantee: a configuration is complete and frozen, or every wrong variable is reported at once.
import { mkdirSync, mkdtempDisposableSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { ConfigError, describeConfig, readConfig, setting } from './config.ts'

const schema = z.object({
  port: setting('PORT', 'TCP port of the API', z.coerce.number().int().max(65_535).default(8080)),
  databaseUrl: setting('DATABASE_URL', 'address of Postgres', z.url(), { secret: true }),
  tiers: setting(
    'DORMOUSE_TIERS',
    'sizes',
    z
      .string()
      .transform((text) => JSON.parse(text))
      .default({ small: { vcpus: 1 } }),
  ),
  issuer: setting('OIDC_ISSUER', 'identity provider', z.url().optional()),
})

const good = { DATABASE_URL: 'postgres://u:p@localhost/d', SHELL: '/bin/sh' }

const problemsWith = (env: Record<string, string | undefined>) => {
  try {
    readConfig(schema, env)
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigError)
    return (error as ConfigError).problems
  }
  return []
}

test('contains its own variables and defaults, and nothing else', () => {
  expect(readConfig(schema, { ...good, PORT: '9000' })).toEqual({
    port: 9000,
    databaseUrl: good.DATABASE_URL,
    tiers: { small: { vcpus: 1 } },
  })
})

test('a secret may be a file of systemd’s credentials; a variable counts first, and nothing but secrets is read there', () => {
  using folder = mkdtempDisposableSync(join(tmpdir(), 'dormouse-credentials-'))
  writeFileSync(join(folder.path, 'DATABASE_URL'), `${good.DATABASE_URL}\n`)
  writeFileSync(join(folder.path, 'PORT'), '9000\n')
  const env = { CREDENTIALS_DIRECTORY: folder.path }
  expect(readConfig(schema, env)).toMatchObject({ databaseUrl: good.DATABASE_URL, port: 8080 })
  expect(readConfig(schema, { ...env, DATABASE_URL: 'postgres://other/d' }).databaseUrl).toBe('postgres://other/d')
  rmSync(join(folder.path, 'DATABASE_URL'))
  expect(problemsWith(env)).toEqual([expect.stringContaining('DATABASE_URL is not set')])
  mkdirSync(join(folder.path, 'DATABASE_URL'))
  expect(problemsWith(env)).toEqual([expect.stringMatching(/^DATABASE_URL is in .* cannot be read \(EISDIR\); run/)])
})

test('an empty variable counts as unset', () => {
  expect(readConfig(schema, { ...good, PORT: '' }).port).toBe(8080)
})

test('cannot be changed afterwards, at any depth', () => {
  const config = readConfig(schema, good)
  expect(() => Object.assign(config, { port: 1 })).toThrow(TypeError)
  expect(() => Object.assign(config.tiers.small, { vcpus: 64 })).toThrow(TypeError)
})

test('reports every wrong variable at once, with what was expected and what to do', () => {
  expect(problemsWith({ PORT: '99999', OIDC_ISSUER: 'nowhere' })).toEqual([
    'PORT is "99999": must be at most 65535; correct it, or unset it for the default (8080): TCP port of the API',
    'DATABASE_URL is not set; set it: address of Postgres',
    'OIDC_ISSUER is "nowhere": must be a URL; correct it, or unset it for the default (none): identity provider',
  ])
})

test('never shows the value of a secret', () => {
  expect(problemsWith({ DATABASE_URL: 'hunter2' }).join()).not.toContain('hunter2')
  expect(problemsWith({ DATABASE_URL: 'hunter2' })).toEqual([
    'DATABASE_URL has a value that is not valid: must be a URL; correct it: address of Postgres',
  ])
})

test('describes one row per variable', () => {
  expect(describeConfig(schema)).toEqual([
    { name: 'PORT', default: '8080', description: 'TCP port of the API', secret: false },
    { name: 'DATABASE_URL', default: 'required', description: 'address of Postgres', secret: true },
    { name: 'DORMOUSE_TIERS', default: '{"small":{"vcpus":1}}', description: 'sizes', secret: false },
    { name: 'OIDC_ISSUER', default: 'none', description: 'identity provider', secret: false },
  ])
})

test('describes a default as it would be written, not as it is used', () => {
  const seconds = z.coerce
    .number()
    .default(3)
    .transform((secs) => secs * 1_000)
  const lease = setting('LEASE_SECS', 'lease, in seconds', seconds)
  expect(describeConfig(z.object({ lease }))).toMatchObject([{ default: '3' }])
})

test('reports the field that has no variable', () => {
  expect(() => describeConfig(z.object({ port: z.number() }))).toThrow('the field "port" has no variable')
})
