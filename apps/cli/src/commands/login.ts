// login, logout, profiles: the services and keys that this user keeps.
import { createAdminClient, createClient } from '@dormouse/client'
import type { Command } from 'commander'
import { type Context, operatorPrefix } from '../context.ts'
import { CliError, exitCodes } from '../failures.ts'
import { type JsonOption, withJson } from '../options.ts'
import { type KeyField, profileNames, readProfile, removeProfile, writeProfile } from '../profiles.ts'
import { defaultProfile } from '../service.ts'
import { table } from '../terminal.ts'
import { trustMachine } from '../trust.ts'

const notes = `
The key is asked for without showing it, or read from standard input if that is not a terminal. It is an API key, or an
operator key for \`dormouse admin\`; a profile keeps one of each. The service must accept it before it is kept, in
$XDG_CONFIG_HOME/dormouse or ~/.config/dormouse, readable by you alone.

Without --profile and DORMOUSE_PROFILE, the profile is "${defaultProfile}". DORMOUSE_URL and DORMOUSE_API_KEY come before it,
and --profile comes before them.`

/** Adds the commands. */
export function addLogin(program: Command, context: Context): void {
  withJson(program.command('login'), 'dormouse login https://desktops.example.com --profile work')
    .description('keep the address of a service and a key, for all later commands')
    .argument('<url>', 'address of the service')
    .addHelpText('after', notes)
    .action((url: string, options: JsonOption) => login(context, url, options))

  withJson(program.command('logout'), 'dormouse logout --profile work')
    .description('forget a profile and its keys; the keys stay valid until an operator revokes them')
    .action((options: JsonOption) => logout(context, options))

  withJson(program.command('profiles'), 'dormouse profiles')
    .description('list the profiles that are kept')
    .action((options: JsonOption) => list(context, options))
}

const chosen = ({ profile, env }: Context): string => profile ?? (env.DORMOUSE_PROFILE || defaultProfile)

async function login(context: Context, text: string, options: JsonOption): Promise<void> {
  const { env, terminal } = context
  const [name, baseUrl] = [chosen(context), addressOf(text)]
  const before = readProfile(env, name)
  if (baseUrl.startsWith('http:') && !isLocal(baseUrl))
    terminal.note('warning: plain HTTP shows the key to everyone on the way; use https:// if the service has it')
  const key = await readKey(context)
  const field: KeyField = key.startsWith(operatorPrefix) ? 'operator_key' : 'api_key'
  const { signal } = terminal
  trustMachine(baseUrl)
  if (field === 'operator_key') await createAdminClient({ baseUrl, operatorKey: key }).listOrgs({ signal })
  else await createClient({ baseUrl, apiKey: key }).listDesktops({ limit: 1 }, { signal })
  const file = writeProfile(env, name, {
    ...(before?.base_url === baseUrl && before),
    base_url: baseUrl,
    [field]: key,
  })
  context.show(options, { profile: name, base_url: baseUrl, key: field, file }, () => '')
  if (!options.json) terminal.note(`The service accepts the key. The profile "${name}" is kept in ${file}.`)
  if (env.DORMOUSE_URL && !options.json)
    terminal.note(`DORMOUSE_URL is set and comes before it: unset it, or use --profile ${name}.`)
}

function addressOf(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (!url || !['http:', 'https:'].includes(url.protocol) || url.username || url.search || url.hash)
    throw new CliError(
      `${JSON.stringify(text)} is not the address of a service`,
      'use one such as https://desktops.example.com',
      exitCodes.usage,
    )
  return url.href.replace(/\/+$/, '')
}

const isLocal = (url: string): boolean => /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/.test(new URL(url).hostname)

/** A terminal is asked; otherwise it is the first line of standard input, so that no key is in the list of processes. */
async function readKey({ terminal }: Context): Promise<string> {
  const given = terminal.interactive ? await terminal.ask('Key: ', { hidden: true }) : await firstLine()
  const key = given.trim()
  // It becomes a header.
  if (/^[\x21-\x7e]+$/.test(key)) return key
  throw new CliError(
    key === '' ? 'no key was given' : 'this is not a key: it has a character that no key has',
    'type or paste the key, or send it to standard input: dormouse login <url> < key.txt',
    exitCodes.usage,
  )
}

async function firstLine(): Promise<string> {
  const most = 16_384
  let text = ''
  for await (const chunk of process.stdin.setEncoding('utf8')) {
    text += chunk
    if (text.includes('\n') || text.length > most) break
  }
  return text.trimStart().split('\n', 1)[0]!
}

function logout(context: Context, options: JsonOption): void {
  const name = chosen(context)
  if (!removeProfile(context.env, name))
    throw new CliError(`there is no profile "${name}"`, '`dormouse profiles` lists them', exitCodes.notFound)
  context.show(options, { profile: name, removed: true }, () => `the profile ${name} is removed\n`)
}

function list(context: Context, options: JsonOption): void {
  const { env, terminal } = context
  const profiles = profileNames(env).map((name) => {
    const kept = readProfile(env, name)
    const keys = (['api_key', 'operator_key'] as const).filter((field) => kept?.[field])
    return { profile: name, base_url: kept?.base_url ?? null, keys }
  })
  const rows = profiles.map((one) => [one.profile, one.base_url, one.keys.join(', ').replaceAll('_', ' ')])
  context.show(options, { profiles }, () => (rows.length ? table(['PROFILE', 'URL', 'KEYS'], rows) : ''))
  if (!rows.length && !options.json) terminal.note('No profiles yet. Next step: dormouse login <url>')
}
