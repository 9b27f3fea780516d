// The shell of a simulated guest, enough to see whether memory and disk survived: a few programs, with ; && || pipes,
// redirections and quotes. Knows nothing of domains.
import { notRunReason, refuse } from '@dormouse/contract'

/** What the shell may use of its guest. */
export interface ShellWorld {
  read(path: string): string | undefined
  write(path: string, text: string): void
  remove(path: string): void
  /** The guest's clock. */
  nowMs(): number
  sleep(ms: number): Promise<void>
  env: Record<string, string>
}

export interface ShellResult {
  exitCode: number
  stdout: string
  stderr: string
}

class Exit {
  readonly code: number
  constructor(code: number) {
    this.code = code
  }
}

export type Output = { stdout: string; stderr: string }

/** Runs a string as `/bin/sh -c` does. What it prints goes to `out`, also what it has printed if it fails. */
export async function runShell(
  world: ShellWorld,
  script: string,
  stdin: string,
  out: Output = { stdout: '', stderr: '' },
): Promise<ShellResult> {
  try {
    const exitCode = await runList(world, tokens(script, world.env), stdin, out)
    return { exitCode, ...out }
  } catch (error) {
    if (error instanceof Exit) return { exitCode: error.code, ...out }
    throw error
  }
}

/** Runs an array without a shell; `command_not_run` if there is no such program. */
export async function runArray(
  world: ShellWorld,
  words: string[],
  stdin: string,
  out: Output = { stdout: '', stderr: '' },
): Promise<ShellResult> {
  const [name = ''] = words
  if (!isProgram(name)) refuse('command_not_run', notRunReason('program', { command: words, cwd: null }))
  const exitCode = await programOf(name)!(world, words.slice(1), stdin, out)
  return { exitCode, ...out }
}

type Token = { word: string } | { operator: string }
const operators = ['&&', '||', '>>', '>&2', '2>', '>', '<', ';', '|', '\n']

function tokens(script: string, env: Record<string, string>): Token[] {
  const found: Token[] = []
  let word: string | undefined
  const end = () => {
    if (word !== undefined) found.push({ word })
    word = undefined
  }
  for (let at = 0; at < script.length; at++) {
    const char = script[at]!
    const operator = operators.find((text) => script.startsWith(text, at))
    if (operator && !(operator === '2>' && word !== undefined)) {
      end()
      found.push({ operator })
      at += operator.length - 1
    } else if (char === "'" || char === '"') {
      const close = script.indexOf(char, at + 1)
      if (close < 0) return [{ word: 'unterminated-quote' }]
      const inner = script.slice(at + 1, close)
      word = (word ?? '') + (char === '"' ? expand(inner, env) : inner)
      at = close
    } else if (char === ' ' || char === '\t') end()
    else if (char === '$') {
      const name = /^\$\{?\w+\}?/.exec(script.slice(at))?.[0] ?? '$'
      word = (word ?? '') + expand(name, env)
      at += name.length - 1
    } else word = (word ?? '') + char
  }
  end()
  return found
}

const expand = (text: string, env: Record<string, string>) =>
  text.replace(/\$\{?(\w+)\}?/g, (_, name: string) => env[name] ?? '')

async function runList(world: ShellWorld, all: Token[], stdin: string, out: Output): Promise<number> {
  let code = 0
  let pipeline: Token[] = []
  let skip = false
  for (const token of [...all, { operator: ';' }]) {
    const join = 'operator' in token && [';', '\n', '&&', '||'].includes(token.operator) ? token.operator : undefined
    if (!join) {
      pipeline.push(token)
      continue
    }
    if (!skip && pipeline.length > 0) code = await runPipeline(world, pipeline, stdin, out)
    pipeline = []
    skip = (join === '&&' && code !== 0) || (join === '||' && code === 0)
  }
  return code
}

async function runPipeline(world: ShellWorld, all: Token[], stdin: string, out: Output): Promise<number> {
  const stages: Token[][] = [[]]
  for (const token of all) {
    if ('operator' in token && token.operator === '|') stages.push([])
    else stages.at(-1)!.push(token)
  }
  let code = 0
  let input = stdin
  for (const [index, stage] of stages.entries()) {
    const inner: Output = { stdout: '', stderr: '' }
    try {
      code = await runSimple(world, stage, input, inner)
    } finally {
      out.stderr += inner.stderr
      input = inner.stdout
      if (index === stages.length - 1) out.stdout += inner.stdout
    }
  }
  return code
}

async function runSimple(world: ShellWorld, stage: Token[], stdin: string, out: Output): Promise<number> {
  const words: string[] = []
  const redirects: { operator: string; path: string }[] = []
  for (let at = 0; at < stage.length; at++) {
    const token = stage[at]!
    if ('word' in token) words.push(token.word)
    else if (token.operator === '>&2') redirects.push({ operator: '>&2', path: '' })
    else redirects.push({ operator: token.operator, path: wordOf(stage[++at]) })
  }
  const from = redirects.find(({ operator }) => operator === '<')
  const input = from ? world.read(from.path) : stdin
  if (input === undefined) {
    out.stderr += `sh: ${from?.path}: No such file or directory\n`
    return 1
  }
  const inner: Output = { stdout: '', stderr: '' }
  try {
    return await runWords(world, words, input, inner)
  } finally {
    redirect(world, redirects, inner, out)
  }
}

const wordOf = (token: Token | undefined) => (token && 'word' in token ? token.word : '')

function redirect(
  world: ShellWorld,
  redirects: { operator: string; path: string }[],
  inner: Output,
  out: Output,
): void {
  for (const { operator, path } of redirects) {
    if (operator === '>&2') inner.stderr += inner.stdout
    else if (operator === '>') world.write(path, inner.stdout)
    else if (operator === '>>') world.write(path, (world.read(path) ?? '') + inner.stdout)
    else if (operator === '2>') {
      world.write(path, inner.stderr)
      inner.stderr = ''
      continue
    } else continue
    inner.stdout = ''
  }
  out.stdout += inner.stdout
  out.stderr += inner.stderr
}

function runWords(world: ShellWorld, words: string[], stdin: string, out: Output): Promise<number> | number {
  const [name = 'true', ...args] = words
  const program = programOf(name)
  if (program) return program(world, args, stdin, out)
  out.stderr += `sh: ${name}: not found; ${known()}\n`
  return 127
}

type Program = (world: ShellWorld, args: string[], stdin: string, out: Output) => Promise<number> | number

/** A program of the guest; a property that every object has is not one. */
function programOf(name: string): Program | undefined {
  const base = name.replace(/^\/(usr\/)?bin\//, '')
  return Object.hasOwn(programs, base) ? programs[base] : undefined
}

/** Whether the guest has it. What only a shell knows is none. */
export const isProgram = (name: string): boolean => name !== 'exit' && programOf(name) !== undefined

const known = () =>
  `a simulated guest knows only ${Object.keys(programs)
    .filter((name) => name !== ':')
    .join(', ')}`

const programs: Record<string, Program> = {
  true: () => 0,
  false: () => 1,
  sync: () => 0,
  umask: () => 0,
  mkdir: () => 0,
  '[': (world, [test, path = '']) => (test === '-w' || world.read(path) !== undefined ? 0 : 1),
  ':': () => 0,
  echo: (_world, args, _stdin, out) => {
    const bare = args[0] === '-n'
    out.stdout += args.slice(bare ? 1 : 0).join(' ') + (bare ? '' : '\n')
    return 0
  },
  cat: (world, args, stdin, out) => {
    let code = 0
    for (const path of args.length > 0 ? args : ['-']) {
      const text = path === '-' ? stdin : world.read(path)
      if (text === undefined) {
        out.stderr += `cat: ${path}: No such file or directory\n`
        code = 1
      } else out.stdout += text
    }
    return code
  },
  ls: (world, args, _stdin, out) => {
    const paths = args.filter((arg) => !arg.startsWith('-'))
    const missing = paths.filter((path) => world.read(path) === undefined)
    for (const path of paths) {
      if (missing.includes(path)) out.stderr += `ls: ${path}: No such file or directory\n`
      else out.stdout += `${path}\n`
    }
    return missing.length === 0 ? 0 : 1
  },
  help: (_world, _args, _stdin, out) => {
    out.stdout += `${known()}\n`
    return 0
  },
  uname: (_world, args, _stdin, out) => {
    out.stdout += args[0] === '-a' ? 'Linux simulated, without a kernel\n' : 'Linux\n'
    return 0
  },
  hostname: (_world, _args, _stdin, out) => {
    out.stdout += 'simulated\n'
    return 0
  },
  rm: (world, args) => {
    for (const path of args.filter((arg) => !arg.startsWith('-'))) world.remove(path)
    return 0
  },
  test: (world, args) => (world.read(args[1] ?? '') === undefined ? 1 : 0),
  date: (world, args, _stdin, out) => {
    const now = world.nowMs()
    out.stdout += `${args[0] === '+%s' ? Math.floor(now / 1000) : new Date(now).toISOString()}\n`
    return 0
  },
  sleep: async (world, args) => {
    await world.sleep(Number(args[0] ?? 0) * 1000)
    return 0
  },
  exit: (_world, args) => {
    throw new Exit(Number(args[0] ?? 0) & 255)
  },
  sh: async (world, args, stdin, out) => {
    return (await runShell(world, args[0] === '-c' ? (args[1] ?? '') : '', stdin, out)).exitCode
  },
}
