// `npm test`: the same set-up as `npm start`, then every check and every test. Ends with one plain line of counts.
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { readOrExit } from '@dormouse/process/arguments'
import { endWithUs } from './testbed/end-with-us.ts'
import { ensurePackages } from './testbed/packages.ts'
import { identify } from './testbed/processes.ts'

const help = `npm test                   checks, unit, stack (simulated hosts), real libvirt and QEMU
npm test -- --project unit   only these tests (unit, stack, real); may be given more than once
npm run test:long          all tests on hosts at full length: ten sleeps each, the hostile guests, and those that rarely break
npm run test:crash         kill -9 in the middle of accepted operations: 20 trials simulated, 3 on real QEMU
npm run test:scale         what needs a million rows or thousands of desktops: migrations, lists, restarts of Postgres
npm run test:install       a bare Debian in a container of systemd's becomes a host, over SSH; from the packages' mirror
npm run test:packages      Debian machines become a service, by the commands of docs/production.md; as root, up to 45 minutes
npm run test:kernels       guests with the kernel of Debian 13 wake from memory and from templates; on Debian
npm run test:desktop       a desktop of Debian's with a screen, used by mouse; builds its image first, in a few minutes

Further words are handed to vitest, such as a part of a file's name.`

const root = fileURLToPath(new URL('../', import.meta.url))
const parent = process.ppid
const withoutLibvirt = new Set(['unit', 'integration', 'scale'])
const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
const began = performance.now()
const lap = (what: string) => console.log(`[${((performance.now() - began) / 1_000).toFixed(1).padStart(5)} s] ${what}`)

const { values, positionals } = readOrExit(() =>
  parseArgs({
    allowPositionals: true,
    options: {
      help: { type: 'boolean', short: 'h' },
      long: { type: 'boolean' },
      crash: { type: 'boolean' },
      desktop: { type: 'boolean' },
      install: { type: 'boolean' },
      kernels: { type: 'boolean' },
      packages: { type: 'boolean' },
      scale: { type: 'boolean' },
      project: { type: 'string', multiple: true },
    },
  }),
)

if (values.help) console.log(help)
else process.exitCode = await main()

async function main(): Promise<number> {
  const projects = values.project ?? chosenProjects()
  if (values.crash || projects.some((project) => !withoutLibvirt.has(project)))
    await ensurePackages({ say: console.log, tests: true, containers: values.install || values.packages })
  lap('tools are there')
  if (values.crash) return crash()
  if (
    !values.project &&
    !values.long &&
    !values.desktop &&
    !values.install &&
    !values.packages &&
    !values.kernels &&
    !values.scale &&
    (await node('scripts/turbo.ts', 'check')) !== 0
  )
    return 1
  return vitest(projects)
}

function chosenProjects(): string[] {
  if (values.desktop) return ['desktop']
  if (values.install) return ['install']
  if (values.packages) return ['packages']
  if (values.kernels) return ['kernels']
  if (values.scale) return ['scale']
  return values.long ? ['integration', 'real'] : ['unit', 'integration', 'real']
}

async function crash(): Promise<number> {
  const simulated = await node('test/crash/main.ts', '--trials', '20', '--simulated', ...positionals)
  return simulated || node('test/crash/main.ts', '--trials', '3', '--real', ...positionals)
}

interface TestResult {
  status: string
  fullName: string
  failureMessages: string[]
}

interface Report {
  numPassedTests: number
  numFailedTests: number
  testResults: { status: string; assertionResults: TestResult[] }[]
}

/** A file whose set-up failed: none of its tests did, since none began. */
function fellAlone({ status, assertionResults }: Report['testResults'][number]): boolean {
  return status === 'failed' && assertionResults.every((test) => test.status !== 'failed')
}

/** What failed first and passed then ends no run, and is worth a look anyway. */
function passedLate({ testResults }: Report): string[] {
  const late = testResults.flatMap(({ assertionResults }) => assertionResults).filter(isLate)
  return late.map(
    ({ fullName, failureMessages }) => `passed at the second try: ${fullName}\n${failureMessages.join('\n')}`,
  )
}

function isLate({ status, failureMessages }: TestResult): boolean {
  return status === 'passed' && failureMessages.length > 0
}

async function vitest(projects: string[]): Promise<number> {
  const folder = mkdtempSync(join(tmpdir(), 'dormouse-report-'))
  const report = join(folder, 'report.json')
  const words = ['--reporter=default', '--reporter=json', `--outputFile.json=${report}`]
  const chosen = projects.flatMap((project) => ['--project', project])
  try {
    const code = await node('node_modules/vitest/vitest.mjs', 'run', ...chosen, ...words, ...positionals)
    lap('done')
    // Interrupted: there is nothing to count.
    if (!existsSync(report)) return code || 1
    const told = JSON.parse(readFileSync(report, 'utf8')) as Report
    const { numPassedTests, numFailedTests, testResults } = told
    for (const words of passedLate(told)) console.log(words)
    console.log(`tests: ${numPassedTests} passed, ${numFailedTests + testResults.filter(fellAlone).length} failed`)
    return code
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Runs a program of ours with our Node, before the eyes of whoever watches; returns its exit code. */
function node(file: string, ...words: string[]): Promise<number> {
  const env = {
    // Code is compiled once: the tests start hundreds of processes.
    NODE_COMPILE_CACHE: join(root, 'node_modules/.cache/compiled'),
    ...process.env,
    ...((values.long || values.install) && { DORMOUSE_TEST_LONG: '1' }),
  }
  const child = spawn(process.execPath, [file, ...words], { cwd: root, stdio: 'inherit', env })
  const stop = endsWithUs(child)
  return new Promise((resolve) =>
    child.on('exit', (code) => {
      stop()
      resolve(code ?? 1)
    }),
  )
}

/** It ends, and with it all that tests have started, on a signal, when we are killed, or when npm has gone. */
function endsWithUs(child: ChildProcess): () => void {
  const end = () => void child.kill('SIGTERM')
  const identity = identify(child.pid!)
  const unbind = identity && endWithUs(identity, 'SIGTERM')
  for (const name of signals) process.on(name, end)
  // npm passes on SIGINT and SIGTERM, and nothing else that ends it.
  const watch = setInterval(() => process.ppid !== parent && end(), 500)
  return () => {
    clearInterval(watch)
    for (const name of signals) process.off(name, end)
    unbind?.()
  }
}
