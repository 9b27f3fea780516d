// `npm start`: everything on this machine by one command, and everything stopped again by Ctrl-C. Decides the order; the
// parts are in start/ and ground/.
import { randomUUID } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { hostname } from 'node:os'
import { resolve } from 'node:path'
import { createAdminClient, createClient } from '@dormouse/client'
import { ensureMiniImage } from '../infra/guest-image/mini.ts'
import { ensureViewer } from './build/viewer.ts'
import { kvmWorks } from './ground/kvm.ts'
import { startPrivateLibvirtd } from './ground/libvirtd.ts'
import { isRoot } from './ground/namespaces.ts'
import { ensurePackages } from './ground/packages.ts'
import { startPostgres } from './ground/postgres.ts'
import { identify, run } from './ground/processes.ts'
import { sessionUri, startSessionLibvirtd } from './ground/session-libvirtd.ts'
import { dropShortName, giveShortName } from './ground/short-name.ts'
import { findSystemLibvirtd } from './ground/system-libvirtd.ts'
import { ensureKeys, operators, takes, until } from './start/api.ts'
import { endLeftovers, keepRunning } from './start/children.ts'
import { type Instance, openInstance } from './start/instance.ts'
import { followLead, leaderOf } from './start/lead.ts'
import { linkHosts, type Place, type StartedHost } from './start/linking.ts'
import { help, readOptions, type StartOptions } from './start/options.ts'
import { type Replica, startReplicas } from './start/replicas.ts'
import { sleepAll } from './start/sleep-all.ts'
import { tour } from './start/tour.ts'
import { watchOver } from './start/watch.ts'
import { orExplain } from './words.ts'

const began = performance.now()
const say = (line: string) => console.log(line)
const lap = (what: string) => say(`[${((performance.now() - began) / 1_000).toFixed(1).padStart(5)} s] ${what}`)

/** What was started, in order; the last goes first when all is stopped. */
const stops: { name: string; stop: () => Promise<void> }[] = []

async function main(): Promise<void> {
  const options = orExplain(() => readOptions(process.argv.slice(2), process.env, process.cwd()))
  if (options.help) return say(help)
  const interrupted = interruptions()
  const instance = openInstance(options.dataDir)
  stops.push({ name: 'instance', stop: async () => instance.release() })
  let service: Service | undefined
  try {
    await endLeftovers(instance.path('run'))
    for (let replica = 0; replica < options.replicas; replica++) await requireFree(options.port + replica)
    service = await bringUp(options, instance, interrupted.first)
    await Promise.race([serve(options, instance, service), interrupted.promise])
  } finally {
    if (service) await sleepBefore(service, interrupted.second)
    await stopAll()
  }
}

interface Service {
  replicas: Replica[]
  operatorKey: string
  apiKey: string
}

async function bringUp(options: StartOptions, instance: Instance, signal: AbortSignal): Promise<Service> {
  const { simulated } = options
  if (!simulated) {
    await ensurePackages({ say })
    lap('tools are there')
  }
  const image = simulated
    ? undefined
    : ensureMiniImage({ imagesDir: options.imagesDir ?? instance.path('images'), say })
  const [databaseUrl, host] = await Promise.all([
    database(options, instance),
    simulated ? undefined : hypervisor(instance),
    ensureViewer({ say }),
  ])
  signal.throwIfAborted()
  const replicas = await startReplicas({
    count: options.replicas,
    port: options.port,
    env: { ...emulatedTiers(host), ...passedOn('DORMOUSE_'), DATABASE_URL: databaseUrl },
    runDir: instance.path('run'),
    say,
    started: ({ stop }) => stops.push({ name: 'control plane', stop }),
  })
  const urls = replicas.map(({ url }) => url)
  const baseUrl = await until(
    () => leaderOf(urls),
    30_000,
    () => `no control plane came to lead; its log: ${replicas[0]!.process.logFile}`,
  )
  const keys = await ensureKeys(instance, baseUrl, async () => {
    const main = new URL('../apps/control-plane/src/main.ts', import.meta.url).pathname
    const made = await run(process.execPath, [main, 'operator-key', '--name', 'local'], {
      env: { ...process.env, DATABASE_URL: databaseUrl },
    })
    return made.trim()
  })
  lap(urls.length === 1 ? `control plane is ready at ${baseUrl}` : `${urls.length} control planes are ready`)
  await image
  const linked = await agents(options, instance, urls, keys.operatorKey, host)
  lap(
    simulated
      ? `${linked === 1 ? '1 simulated host is' : `${linked} simulated hosts are`} linked`
      : `host is linked, ${host!.describe}`,
  )
  return { replicas, ...keys }
}

async function database({ databaseUrl }: StartOptions, instance: Instance): Promise<string> {
  if (databaseUrl) return databaseUrl
  const postgres = await startPostgres({
    dataDir: instance.path('postgres'),
    runtimeDir: instance.path('run'),
    say,
    durable: true,
  })
  const unwatch = watchOver('Postgres', () => identify(postgres.pid) !== undefined, postgres.restart, say)
  stops.push({ name: 'Postgres', stop: () => unwatch().then(postgres.stop) })
  lap('Postgres is up')
  return postgres.url
}

interface Hypervisor {
  socketPath: string
  kvm: boolean
  /** The data folder under a name that libvirt and QEMU can use, too. */
  dir: string
  describe: string
  /** Where screens listen; a private libvirt’s own place is not to be seen from outside. */
  socketsDir?: string
  /** The driver to ask it for, where that is not the system's. */
  uri?: string
}

/** For root the machine's own libvirt where it is usable, else a private one in namespaces; for others one of their own. */
async function hypervisor(instance: Instance): Promise<Hypervisor> {
  const kvm = kvmWorks()
  const how = kvm ? 'with KVM' : 'guests are emulated, since KVM does not work here'
  if (!isRoot()) return session(instance, kvm, how)
  const own = await findSystemLibvirtd(instance.dir)
  if (own.socketPath) {
    const dir = giveShortName(instance.dir)
    stops.push({ name: 'the short name', stop: async () => dropShortName(dir) })
    return { kvm, socketPath: own.socketPath, dir, describe: `the machine’s own libvirt, ${how}` }
  }
  const libvirtd = await startPrivateLibvirtd({
    dir: instance.dir,
    name: hostname(),
    hostUuid: hostUuid(instance),
    say,
  })
  const unwatch = watchOver('libvirtd', libvirtd.daemonRuns, libvirtd.restartDaemon, say)
  stops.push({ name: 'libvirt', stop: () => unwatch().then(libvirtd.stop) })
  lap('a private libvirt is up')
  const { socketPath, shortDir: dir } = libvirtd
  return { kvm, socketPath, dir, socketsDir: `${dir}/screens`, describe: `a private libvirt, ${how}` }
}

/** Without root: libvirt's session mode. */
async function session(instance: Instance, kvm: boolean, how: string): Promise<Hypervisor> {
  const libvirtd = await startSessionLibvirtd({ dir: instance.dir, hostUuid: hostUuid(instance), say })
  const unwatch = watchOver('libvirtd', libvirtd.daemonRuns, libvirtd.restartDaemon, say)
  stops.push({ name: 'libvirt', stop: () => unwatch().then(libvirtd.stop) })
  lap('a libvirt of your own is up; without root its guests have no network')
  const { socketPath, shortDir: dir } = libvirtd
  return { kvm, socketPath, dir, socketsDir: `${dir}/screens`, uri: sessionUri, describe: `your own libvirt, ${how}` }
}

/** Made once for an instance. */
function hostUuid(instance: Instance): string {
  const file = instance.path('host-uuid')
  if (!existsSync(file)) writeFileSync(file, randomUUID())
  return readFileSync(file, 'utf8').trim()
}

/** Answers how many hosts there are to place desktops on. */
async function agents(
  options: StartOptions,
  instance: Instance,
  urls: string[],
  operatorKey: string,
  host: Hypervisor | undefined,
): Promise<number> {
  const admin = createAdminClient({ baseUrl: urls[0]!, operatorKey })
  const names = host ? ['agent'] : Array.from({ length: options.simulated }, (_, i) => `simulated-${i + 1}`)
  const start = async ({ name, folder }: Place): Promise<StartedHost> => {
    const since = new Date()
    const { token } = await admin.inviteHost({ name })
    const env = host ? libvirtEnv(host, options.imagesDir) : { DORMOUSE_AGENT_DRIVER: 'simulated' }
    const agent = await keepRunning({
      name,
      file: 'apps/agent/src/main.ts',
      env: {
        DORMOUSE_AGENT_CONTROL_PLANES: urls.join(','),
        DORMOUSE_AGENT_ENROL_TOKEN: token,
        DORMOUSE_AGENT_NAME: host ? hostname() : name,
        DORMOUSE_AGENT_STATE_DIR: host ? `${host.dir}/${name}` : folder,
        // Database and hosts lie in one folder, and move to another machine together.
        DORMOUSE_AGENT_ADOPT: 'true',
        ...env,
        ...passedOn('DORMOUSE_AGENT_'),
      },
      runDir: instance.path('run'),
      say,
    })
    stops.push({ name, stop: agent.stop })
    return { name, folder, since, logFile: agent.logFile }
  }
  const places = names.map((name) => ({ name, folder: instance.path(name) }))
  return linkHosts(places, { list: async () => (await admin.listHosts()).hosts, isUsable: takes('mini'), start, say })
}

/** Emulation is slow: the small tier is made for it, unless the environment says otherwise. */
const emulatedTiers = (host: Hypervisor | undefined): Record<string, string> =>
  host && !host.kvm ? { DORMOUSE_TIER_SMALL: '1,256,10' } : {}

/** A private host's network leads nowhere: its guests need none, and start sooner without its filters. */
const libvirtEnv = ({ socketPath, dir, socketsDir, uri }: Hypervisor, imagesDir = `${dir}/images`) => ({
  DORMOUSE_AGENT_LIBVIRT_SOCKET: socketPath,
  ...(uri && { DORMOUSE_AGENT_LIBVIRT_URI: uri }),
  DORMOUSE_AGENT_IMAGES_DIR: imagesDir,
  ...(socketsDir && { DORMOUSE_AGENT_SOCKETS_DIR: socketsDir, DORMOUSE_AGENT_NETWORK: 'none' }),
})

/** Settings of the environment that are meant for what is started; the starter's own win. */
const passedOn = (prefix: string): Record<string, string> =>
  Object.fromEntries(
    Object.entries(process.env).filter(([name, value]) => name.startsWith(prefix) && value) as [string, string][],
  )

async function serve(options: StartOptions, instance: Instance, { replicas, apiKey }: Service): Promise<never> {
  const toured = instance.path('toured')
  const urls = replicas.map(({ url }) => url)
  const baseUrl = (await leaderOf(urls)) ?? urls[0]!
  if (options.tour ?? (!options.simulated && !existsSync(toured))) {
    say('\nThe main job, before your eyes:')
    await tour(createClient({ baseUrl, apiKey }), say)
    writeFileSync(toured, '')
  }
  instance.announce(baseUrl)
  say('')
  lap('ready')
  say(words(options, baseUrl, apiKey))
  if (replicas.length > 1) followLeader(replicas, baseUrl, instance)
  return new Promise(() => {})
}

/** `local.json` names the one that leads, so that `npx dormouse` finds it. */
function followLeader(replicas: Replica[], first: string, instance: Instance): void {
  const urls = replicas.map(({ url }) => url)
  const tell = (url: string, how: string) => {
    const at = urls.indexOf(url)
    say(`Replica ${at + 1} (${url}) ${how}; \`kill -9 ${replicas[at]!.process.pid}\` ends it, and another takes over.`)
  }
  say(`\n${urls.length} control planes, ${urls.join(' and ')}: each serves reads and guests, one makes changes.`)
  tell(first, 'leads')
  const stop = followLead(urls, first, (url) => {
    instance.announce(url)
    tell(url, 'leads now')
    say(`The base URL is now ${url}`)
  })
  stops.push({ name: 'following the lead', stop })
}

const words = ({ dataDir, simulated }: StartOptions, baseUrl: string, apiKey: string) => `
  Base URL  ${baseUrl}
  API key   ${apiKey}
  API docs  ${baseUrl}/docs

  curl -s ${baseUrl}/v1/desktops -H 'Authorization: Bearer ${apiKey}'
  curl -s ${baseUrl}/v1/desktops -H 'Authorization: Bearer ${apiKey}' -d '{"tier":"small"}'
  curl -s -X POST '${baseUrl}/v1/desktops/<id>/wake?wait=true' -H 'Authorization: Bearer ${apiKey}'

${dataDir === resolve('.dormouse') ? '' : `  export DORMOUSE_DATA='${dataDir}'\n`}  npx dormouse list
  npx dormouse create --tier small --wake
  npx dormouse exec <id> -- uname -a
  npx dormouse open <id>
${simulated ? '\nA simulated guest knows only a few commands: npx dormouse exec <id> -- help names them.\n' : ''}
Ctrl-C hibernates what is awake and stops everything.`

async function sleepBefore({ replicas, operatorKey }: Service, skip: AbortSignal): Promise<void> {
  say('')
  const baseUrl = (await leaderOf(replicas.map(({ url }) => url))) ?? replicas[0]!.url
  await sleepAll(operators(baseUrl, operatorKey), say, skip).catch((error: Error) =>
    say(`Hibernating was given up: ${error.message}`),
  )
}

async function stopAll(): Promise<void> {
  for (const { name, stop } of stops.splice(0).reverse()) {
    await stop().catch((error: Error) => say(`${name} did not stop well: ${error.message}`))
  }
  lap('stopped')
}

/** The first signal ends the serving, the second what is waited for. */
function interruptions() {
  const first = new AbortController()
  const second = new AbortController()
  const { promise, resolve } = Promise.withResolvers<void>()
  const onSignal = () => {
    if (first.signal.aborted) second.abort(new Error('skipped'))
    first.abort(new Error('interrupted'))
    resolve()
  }
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(name, onSignal)
  return { first: first.signal, second: second.signal, promise }
}

async function requireFree(port: number): Promise<void> {
  const probe = createServer()
  await new Promise<void>((resolve, reject) => {
    probe.once('error', () => reject(new Error(`port ${port} is in use; set PORT to another one`)))
    probe.listen(port, '127.0.0.1', () => probe.close(() => resolve()))
  })
}

await main().then(
  () => process.exit(process.exitCode ?? 0),
  (error: Error) => {
    console.error(`\n${error.message}`)
    process.exit(1)
  },
)
