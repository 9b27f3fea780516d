// The agent's Debian package on a machine: from a file that is sent there, or from a repository, by apt.
import { createReadStream, existsSync, readFileSync, statSync } from 'node:fs'
import { basename } from 'node:path'
import { Readable } from 'node:stream'
import { CliError, exitCodes } from '../failures.ts'
import type { Root } from './root.ts'

export type Source =
  | { kind: 'file'; path: string; name: string; bytes: number }
  | { kind: 'repository'; url: string; key: string | Buffer | undefined; version: string | undefined }
  /** The repositories that the machine has. */
  | { kind: 'own'; version: string | undefined }

interface Given {
  package?: string
  repository?: string
  signedBy?: string
  agentVersion?: string
}

/** Root's own, so that no other user can change what is about to be installed. */
const folder = '/var/cache/dormouse-install'
const timeoutMs = 1_800_000
const next = 'look at it on the host: apt-get install dormouse-agent; then run the same command again'

/** Reads the options, and the files that they name. */
export function sourceOf({ package: file, repository, signedBy, agentVersion: version }: Given): Source {
  const usage = (message: string, remedy: string) => new CliError(message, remedy, exitCodes.usage)
  if (file && (repository || version)) throw usage('--package is a file of one version', 'name the file alone')
  if (signedBy && !repository) throw usage('--signed-by is the key of a repository', 'name it with --repository')
  if (version && !/^[\w.+~:-]+$/.test(version)) throw usage(`"${version}" is no version`, 'name one, such as 0.1.0')
  if (file) return fileAt(file)
  if (!repository) return { kind: 'own', version }
  if (!/^https?:\/\/[\w.:/~%@+-]+$/.test(repository))
    throw usage(`"${repository}" is not the URL of a repository`, 'write https://…')
  if (!signedBy && !repository.startsWith('https://'))
    throw usage('a repository over plain HTTP needs a signature', 'name the file of its key with --signed-by')
  return { kind: 'repository', url: repository, key: signedBy ? readKey(signedBy) : undefined, version }
}

function fileAt(path: string): Source {
  if (existsSync(path) && statSync(path).isFile())
    return { kind: 'file', path, name: basename(path), bytes: statSync(path).size }
  throw new CliError(`${path} is no file`, 'name the package: dormouse-agent_….deb', exitCodes.usage)
}

function readKey(path: string): Buffer {
  if (existsSync(path)) return readFileSync(path)
  throw new CliError(`${path} does not exist`, 'name the file of the repository’s public key', exitCodes.usage)
}

type Show = ((text: string) => void) | undefined

/** Installs it, with what it depends on. Returns the version if that has changed anything. */
export async function installPackage(root: Root, source: Source, upgrade: boolean, show: Show) {
  const before = await stateOf(root)
  if (source.kind === 'file') await send(root, source, show)
  if (source.kind === 'repository') await addRepository(root, source)
  const what = source.kind === 'file' ? `${folder}/dormouse-agent.deb` : `dormouse-agent${versioned(source)}`
  // An agent that is there stays as it is, unless another one was named.
  const isNamed = upgrade || source.kind !== 'own' || source.version !== undefined
  if (before === '' || isNamed)
    await root.must('installing the package', next, aptScript, [what], { timeoutMs, onLine: show ?? (() => undefined) })
  const after = await stateOf(root)
  return after === before ? undefined : after.split(' ', 1)[0]!
}

const versioned = ({ version }: { version: string | undefined }): string => (version ? `=${version}` : '')

/** Version and content of what is installed; empty if nothing is. */
async function stateOf(root: Root): Promise<string> {
  const script = `dpkg-query -W -f='\${db:Status-Abbrev}=\${Version}\n' dormouse-agent 2>/dev/null | sed -n 's/^ii *=//p'
dpkg-query --control-show dormouse-agent md5sums 2>/dev/null | sha256sum`
  const [version = '', sum = ''] = (await root.run(script)).stdout.trim().split('\n')
  return /^[\w.+~:-]+$/.test(version) ? `${version} ${sum}` : ''
}

/**
 * Finishes what an interrupted dpkg has left, then installs. The present package lists are tried first for a file: updating
 * them takes longest. Waits for another apt instead of failing, and never prompts. A file of the same version with another
 * content is installed, too.
 */
const aptScript = `
export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1
exec 2>&1
apt() { apt-get --yes -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3 "$@" </dev/null; }
if [ -n "$(dpkg --audit)" ]; then dpkg --force-confold --configure -a </dev/null || apt --fix-broken install || exit 1; fi
install() { apt -o Dpkg::Options::=--force-confold install --no-install-recommends --allow-downgrades "$@" ca-certificates; }
case $1 in
  *.deb)
    again=
    sums=$(dpkg-query --control-show dormouse-agent md5sums 2>/dev/null)
    [ -z "$sums" ] || [ "$sums" = "$(dpkg-deb --ctrl-tarfile "$1" | tar -xO ./md5sums)" ] || again=--reinstall
    install $again "$1" || { apt update && install $again "$1"; } || exit 1
    rm -rf "$(dirname "$1")"
    ;;
  *) apt update && install "$1" ;;
esac`

async function send(root: Root, { path, bytes }: Source & { kind: 'file' }, show: Show): Promise<void> {
  const script = `umask 077; mkdir -p "$1" && head -c "$2" >"$1/part" &&
[ "$(stat -c %s "$1/part")" = "$2" ] && mv "$1/part" "$1/dormouse-agent.deb" && chmod 755 "$1" && chmod 644 "$1/dormouse-agent.deb"`
  let sent = 0
  const mib = (count: number) => (count / 1024 / 1024).toFixed(0)
  async function* content() {
    for await (const chunk of createReadStream(path)) {
      sent += (chunk as Buffer).length
      show?.(`${mib(sent)} of ${mib(bytes)} MiB`)
      yield chunk as Buffer
    }
  }
  const stdin = Readable.from(content())
  const hint = 'check the space in /var, then run the same command again'
  await root.must('sending the package', hint, script, [folder, String(bytes)], { stdin, timeoutMs })
}

/** Writes the source and its key, if they are not there already. */
async function addRepository(root: Root, { url, key }: Source & { kind: 'repository' }): Promise<void> {
  const isText = key?.includes('-----BEGIN PGP PUBLIC KEY BLOCK-----')
  const keyFile = `/etc/apt/keyrings/dormouse.${isText ? 'asc' : 'gpg'}`
  const trust = key ? `Signed-By: ${keyFile}` : 'Trusted: yes'
  const put = (file: string, content: string | Buffer) =>
    root.must(
      'adding the repository',
      next,
      'umask 022; mkdir -p "$(dirname "$1")" && base64 -d >"$1.new" && mv "$1.new" "$1"',
      [file],
      { stdin: Buffer.from(content).toString('base64') },
    )
  if (key) await put(keyFile, key)
  await put(
    '/etc/apt/sources.list.d/dormouse.sources',
    `Types: deb\nURIs: ${url}\nSuites: stable\nComponents: main\n${trust}\n`,
  )
}

/** Removes the package with its settings, this host's identity, and its folders. Refuses while desktops are there. */
export async function purgePackage(root: Root, show: Show): Promise<void> {
  const script = `export DEBIAN_FRONTEND=noninteractive; exec 2>&1
apt-get --yes -o DPkg::Lock::Timeout=600 purge dormouse-agent </dev/null`
  const hint = 'do what it says, then run the same command again'
  await root.must('removing the package', hint, script, [], { timeoutMs, onLine: show ?? (() => undefined) })
}
