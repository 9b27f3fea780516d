// A machine to install a host on: a real OpenSSH server and this machine's own tools, in namespaces with folders of their
// own. systemd and apt are small scripts that remember what they are asked; the package has the real agent.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Source } from '../../../apps/cli/src/install/package.ts'
import { openPrivateHost, type PrivateHost } from '../../../scripts/testbed/private-host.ts'
import { freePort } from '../../free-port.ts'
import { waitFor } from '../../wait-for.ts'

const root = fileURLToPath(new URL('../../../', import.meta.url))

/** One unit, started as its file says. */
const systemctl = `#!/bin/sh
pid=/run/units/pid
echo "$*" >>/run/units/asked
running() { [ -s $pid ] && kill -0 "$(cat $pid)" 2>/dev/null; }
stop() { if running; then kill "$(cat $pid)"; while running; do sleep 0.05; done; fi; rm -f $pid; }
start() {
  if running || [ ! -e /var/lib/dormouse-agent/identity.json ]; then return; fi
  setsid dormouse-agent >>/run/units/log 2>&1 </dev/null &
  echo $! >$pid
}
case $1 in
  is-active) running ;;
  start) start ;;
  stop) stop ;;
  restart) stop; start ;;
  *) ;;
esac`

/** Installs the agent's program alone, and restarts what runs, as its package does. */
const aptGet = `#!/bin/sh
echo "$*" >>/run/units/apt
info=/var/lib/dpkg/info/dormouse-agent.md5sums
case " $* " in
  *' purge '*)
    systemctl stop dormouse-agent
    rm -rf /var/lib/package /var/lib/dormouse-agent /etc/dormouse $info
    ;;
  *' install '*)
    for word; do case $word in *.deb) deb=$word ;; esac; done
    : "\${deb:=/run/units/repository.deb}"
    [ -e "$deb" ] || { echo 'E: Unable to locate package dormouse-agent' >&2; exit 100; }
    mkdir -p /var/lib/package /var/lib/dpkg/info /etc/dormouse
    dpkg-deb -x "$deb" /var/lib/package && dpkg-deb --ctrl-tarfile "$deb" | tar -xO ./md5sums >$info
    echo DORMOUSE_AGENT_DISKS_DIR=/var/lib/dormouse-disks >/etc/dormouse/agent.env
    if systemctl is-active; then systemctl restart dormouse-agent; fi
    ;;
esac`

const dormouseAgent = `#!/bin/sh
[ -e /var/lib/package/main.js ] || { echo 'dormouse-agent: not found' >&2; exit 127; }
set -a; . /etc/dormouse/agent.env
DORMOUSE_AGENT_DRIVER=simulated DORMOUSE_AGENT_METRICS_LISTEN=off
exec '${process.execPath}' /var/lib/package/main.js "$@"`

const shims: Record<string, string> = {
  systemctl,
  'apt-get': aptGet,
  'apt-cache': '#!/bin/sh',
  'dpkg-query': `#!/bin/sh
[ ! -e /var/lib/package/main.js ] || case $1 in --control-show) cat /var/lib/dpkg/info/$2.$3 ;; *) echo 'ii =1.0' ;; esac`,
  'dormouse-agent': dormouseAgent,
  journalctl: '#!/bin/sh\ncat /run/units/log 2>/dev/null',
}

export class SshMachine implements AsyncDisposable {
  /** A private key that root's account accepts. */
  readonly key: string
  readonly folder: string
  readonly #host: PrivateHost
  readonly #cable: Cable

  private constructor(folder: string, host: PrivateHost, cable: Cable) {
    this.folder = folder
    this.#host = host
    this.#cable = cable
    this.key = join(folder, 'key')
  }

  static async start(): Promise<SshMachine> {
    const folder = mkdtempSync(join(tmpdir(), 'dormouse-machine-'))
    for (const name of ['opt', 'lib', 'cache', 'units', 'sshd', 'system', 'sbin', 'etc']) mkdirSync(join(folder, name))
    furnish(folder)
    buildAgent(folder)
    const port = await freePort()
    writeFileSync(join(folder, 'sshd_config'), sshdConfig(folder, port))
    const host = await openPrivateHost({
      name: 'machine',
      run: {
        sbin: '/usr/sbin',
        sshd: join(folder, 'sshd'),
        units: join(folder, 'units'),
        'systemd/system': join(folder, 'system'),
      },
      over: {
        '/etc': join(folder, 'etc'),
        '/opt': join(folder, 'opt'),
        '/var/lib': join(folder, 'lib'),
        '/var/cache': join(folder, 'cache'),
        '/usr/sbin': join(folder, 'sbin'),
      },
      record: join(folder, 'record'),
      logFile: join(folder, 'log'),
      endsWithUs: true,
      sharesNetwork: true,
    })
    await host.exec('/run/sbin/sshd', '-f', join(folder, 'sshd_config'), '-E', join(folder, 'sshd.log'))
    const cable = await Cable.to(port)
    const machine = new SshMachine(folder, host, cable)
    await waitFor('the SSH server', () => isListening(port))
    return machine
  }

  /** As `dormouse` is given it. */
  get target(): string {
    return `root@127.0.0.1:${this.port}`
  }

  get port(): number {
    return this.#cable.port
  }

  /** Arguments with which `ssh` knows this machine, also as the jump host `jump`, and reads nothing of the user's own. */
  sshArgs({ key = this.key, knownHosts = this.#knownHosts }: { key?: string; knownHosts?: string } = {}): string[] {
    const folder = mkdtempSync(join(this.folder, 'ssh-'))
    const [known, config] = [join(folder, 'known_hosts'), join(folder, 'config')]
    writeFileSync(known, knownHosts)
    const lines = [
      `UserKnownHostsFile ${known}`,
      'GlobalKnownHostsFile none',
      `IdentityFile ${key}`,
      'IdentitiesOnly yes',
    ]
    const jump = ['Host jump', 'HostName 127.0.0.1', `Port ${this.port}`, 'User root', 'Host *']
    writeFileSync(config, [...jump, ...lines].join('\n'))
    return ['-F', config]
  }

  get #knownHosts(): string {
    return `[127.0.0.1]:${this.port} ${readFileSync(join(this.folder, 'host_key.pub'), 'utf8')}`
  }

  /** Cuts every SSH connection. */
  cut(): void {
    this.#cable.cut()
  }

  /** A file as the machine sees it. */
  path(name: string): string {
    return join(this.folder, name.replace(/^\/(etc|opt)/, '$1').replace(/^\/var\/(lib|cache)/, '$1'))
  }

  /** Makes it as if nothing had ever been installed. */
  async wipe(): Promise<void> {
    await this.#host.exec('/usr/sbin/systemctl', 'stop', 'dormouse-agent')
    for (const path of ['opt', 'etc/dormouse', 'etc/apt', 'lib', 'cache', 'units'])
      for (const name of existsSync(join(this.folder, path)) ? readdirSync(join(this.folder, path)) : [])
        rmSync(join(this.folder, path, name), { recursive: true })
    writeFileSync(join(this.folder, 'units/asked'), '')
  }

  /** What systemd was asked. */
  get asked(): string[] {
    return readFileSync(join(this.folder, 'units/asked'), 'utf8').trim().split('\n')
  }

  /** A package of the agent; with a mark, it differs from others. */
  package(mark = ''): Source & { kind: 'file' } {
    const tree = mkdtempSync(join(this.folder, 'package-'))
    mkdirSync(join(tree, 'DEBIAN'))
    const main = `${readFileSync(join(this.folder, 'built/main.js'), 'utf8')}\n// ${mark}\n`
    writeFileSync(join(tree, 'main.js'), main)
    const sum = createHash('md5').update(main).digest('hex')
    writeFileSync(join(tree, 'DEBIAN/md5sums'), `${sum}  main.js\n`)
    const fields = ['Package: dormouse-agent', 'Version: 1.0', 'Architecture: all', 'Maintainer: test <t@example.org>']
    writeFileSync(join(tree, 'DEBIAN/control'), `${fields.join('\n')}\nDescription: an agent\n`)
    const path = `${tree}.deb`
    execFileSync('dpkg-deb', ['-Znone', '--build', tree, path], { stdio: ['ignore', 'ignore', 'inherit'] })
    return { kind: 'file', path, name: basename(path), bytes: statSync(path).size }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#cable.close()
    await this.#host.powerOff()
    rmSync(this.folder, { recursive: true, force: true })
  }
}

function furnish(folder: string): void {
  // Only what programs look up of the rest of /etc.
  for (const name of [
    'passwd',
    'group',
    'nsswitch.conf',
    'hosts',
    'os-release',
    'alternatives',
    'ld.so.cache',
    'ld.so.conf',
  ])
    if (existsSync(`/etc/${name}`))
      cpSync(`/etc/${name}`, join(folder, 'etc', name), { recursive: true, verbatimSymlinks: true })
  mkdirSync(join(folder, 'etc/systemd/system'), { recursive: true })
  // A locked account would be refused.
  writeFileSync(join(folder, 'etc/shadow'), 'root:*:19000:0:99999:7:::\n', { mode: 0o600 })
  for (const name of readdirSync('/usr/sbin'))
    if (!shims[name]) symlinkSync(`/run/sbin/${name}`, join(folder, 'sbin', name))
  for (const [name, text] of Object.entries(shims))
    writeFileSync(join(folder, 'sbin', name), `${text}\n`, { mode: 0o755 })
  for (const name of ['key', 'host_key'])
    execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', join(folder, name)])
}

/** In a folder of its own: the clone's own `dist` belongs to whoever builds there. */
function buildAgent(folder: string): void {
  const app = join(folder, 'app')
  mkdirSync(app)
  symlinkSync(join(root, 'apps/agent/src'), join(app, 'src'))
  execFileSync(process.execPath, [join(root, 'scripts/build/bundle.ts')], { cwd: app })
  renameSync(join(app, 'dist'), join(folder, 'built'))
}

const sshdConfig = (folder: string, port: number) => `ListenAddress 127.0.0.1
Port ${port}
HostKey ${join(folder, 'host_key')}
AuthorizedKeysFile ${join(folder, 'key.pub')}
StrictModes no
UsePAM no
PidFile none
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
`

function isListening(port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const socket = connect(port, '127.0.0.1')
  socket.once('connect', () => resolve(true)).once('error', () => resolve(false))
  return promise.finally(() => socket.destroy())
}

/** The way to the SSH server, which can be cut. */
class Cable {
  readonly #server: Server
  readonly #sockets = new Set<Socket>()

  private constructor(server: Server) {
    this.#server = server
  }

  static async to(port: number): Promise<Cable> {
    const server = createServer()
    const cable = new Cable(server)
    server.on('connection', (near) => {
      const far = connect(port, '127.0.0.1')
      for (const [from, into] of [[near, far] as const, [far, near] as const]) {
        cable.#sockets.add(from)
        from.on('error', () => undefined).on('close', () => into.destroy())
        from.pipe(into)
      }
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return cable
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  cut(): void {
    for (const socket of this.#sockets) socket.destroy()
    this.#sockets.clear()
  }

  async close(): Promise<void> {
    this.cut()
    await new Promise((resolve) => this.#server.close(resolve))
  }
}
