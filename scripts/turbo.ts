// `npm run check` and `npm run build`: runs the tasks of turbo.json side by side. Knows no task but its name.
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const commands = {
  check: {
    tasks: ['check', 'lint', 'types', 'unused', 'pages'],
    help: `npm run check              types, lint and format, unused code, generated pages; changes no file
npm run check -- --json    the same as lines of JSON on stdout

A task whose inputs have not changed since it passed is not run again; -- --force runs it all the same.
One task alone: npm run lint, types, unused or pages. One workspace's types: npm run check -w <workspace>.`,
  },
  build: {
    tasks: ['build'],
    help: `npm run build              apps/*/dist/main.js, one file each with its source map, and packages/*/dist
npm run build -- --json    the same as lines of JSON on stdout

A bundle runs on a plain Node 24, without node_modules: node apps/control-plane/dist/main.js
One workspace alone: npm run build -w <workspace>`,
  },
}

const root = fileURLToPath(new URL('../', import.meta.url))
/** Turbo makes no request of its own, and npm adds no warning to a task's output. */
const quiet = { TURBO_TELEMETRY_DISABLED: '1', TURBO_NO_UPDATE_NOTIFIER: '1', npm_config_loglevel: 'error' }

const [name, ...options] = process.argv.slice(2)
const { tasks, help } = commands[name as keyof typeof commands]
if (options.some((option) => ['--help', '-h'].includes(option))) console.log(help)
else process.exitCode = turbo(['run', ...tasks, '--continue=always', '--log-prefix=none', ...options])

function turbo(args: string[]): number {
  const command = ['node_modules/turbo/bin/turbo', ...args]
  const ended = spawnSync(process.execPath, command, { cwd: root, env: { ...process.env, ...quiet }, stdio: 'inherit' })
  return ended.status ?? 1
}
