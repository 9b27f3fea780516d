// Looks for what must never be told: credentials in logs and answers, by their form and by their very value, and paths of
// the machine in answers. Says what was found and where, and does not repeat it.
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

/** An answer as it came. */
export interface Answered {
  method: string
  /** With its query. */
  path: string
  status: number
  headers: object
  text: string
}

/** What nobody tells by chance. A scrubbed one does not fit. */
const forms: Record<string, RegExp> = {
  'an API key': /\bsvc_(?:sk|op)_[0-9A-Za-z]{10,}/,
  'an invitation of a host': /\bdormouse_invite_[\w-]{10,}/,
  'a web token': /\beyJ[\w-]{5,}\.eyJ[\w-]{5,}\./,
  'a private key': /-----BEGIN [A-Z ]*PRIVATE KEY-----/,
  'a secret of a webhook': /\bwhs(?:ec|k)_[0-9A-Za-z+/=]{10,}/,
  'a password in an address': /\b[a-z]+:\/\/[^\s:@/"\\]+:(?!\[hidden\])[^\s:@/"\\]+@/,
}

const root = fileURLToPath(new URL('..', import.meta.url))
const machinePaths = [
  root,
  join(tmpdir(), 'dormouse-'),
  '/run/dormouse-',
  '/var/lib/dormouse',
  `${homedir()}/.dormouse`,
]

/** They exist to hand a secret out, once, to who asked for it. */
const issuing = [
  /^POST \/admin\/v1\/(keys|operator-keys|hosts\/invites)$/,
  /^POST \/v1\/keys$/,
  /^POST \/v1\/desktops\/[^/]+\/stream$/,
  /^POST \/v1\/desktops\/[^/]+\/file-urls$/,
  /^POST \/v1\/webhooks(\/[^/]+\/rotate-secret)?$/,
] as const

/** Shorter ones are found by chance. */
const shortest = 12

export class Secrets {
  readonly #known = new Map<string, string>()

  /** From now on this very value is looked for, too. */
  learn(what: string, value: string | undefined): void {
    if (value && value.length >= shortest) this.#known.set(value, what)
  }

  /** What an answer hands out on purpose is a secret everywhere else. */
  learnFrom({ method, path, text }: Answered): void {
    if (!isIssuing(method, path)) return
    for (const [, value] of text.matchAll(/"(?:api_key|operator_key|token|secret)":"([^"]+)"/g))
      this.learn('a key or token', value)
    for (const [, value] of text.matchAll(/[#/]([\w-]{43})"/g)) this.learn('a token of a screen', value)
  }

  /** What a text tells that it should not, in sentences. */
  inText(where: string, text: string): string[] {
    const byForm = Object.entries(forms).filter(([, form]) => form.test(text))
    const byValue = [...this.#known].filter(([value]) => text.includes(value))
    const found = new Set([...byForm.map(([what]) => what), ...byValue.map(([, what]) => what)])
    return [...found].map((what) => `${where} tells ${what}`)
  }

  /** What an answer tells that it should not, in sentences. */
  inAnswer({ method, path, status, headers, text }: Answered): string[] {
    const where = `${method} ${path.split('?')[0]} → ${status}`
    const told = `${JSON.stringify(headers)} ${text}`
    const paths = machinePaths.some((each) => told.includes(each)) ? [`${where} tells a path of the machine`] : []
    return isIssuing(method, path) ? paths : [...paths, ...this.inText(where, told)]
  }

  /** The same for every log file below a folder, each named once for each thing it tells. */
  inLogFiles(folder: string): string[] {
    return logFiles(folder).flatMap((file) => this.inText(file, readFileSync(file, 'utf8')))
  }
}

/** Every log file below the folder, whoever has written it. */
export function logFiles(folder: string): string[] {
  const names = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.log'))
  return names.map((name) => join(folder, name)).filter((file) => statSync(file, { throwIfNoEntry: false })?.isFile())
}

const isIssuing = (method: string, path: string): boolean =>
  issuing.some((route) => route.test(`${method} ${path.split('?')[0]}`))
