// Brings the agent's files onto a host and runs scripts/install-agent there: the same installer as by hand.
import { createReadStream } from 'node:fs'
import { Readable } from 'node:stream'
import { constants, createGzip } from 'node:zlib'
import type { PayloadFile } from './payload.ts'
import type { Root } from './root.ts'

/** Root's own, so that no other user can change what is about to run. */
const folder = '/var/cache/dormouse-install'
const uploadTimeoutMs = 1_800_000
const installTimeoutMs = 180_000
const next = 'check the space in /var and /opt, then run the same command again'

export interface Delivery {
  /** Left out, an upgrade keeps what is in the host's settings. */
  controlPlanes?: string
  name?: string | undefined
  allowHttp?: boolean
  /** Goes to the installer's standard input, and is in no argument, file or log but the agent's settings. */
  invitation?: string
}

/** What the installer changed, one file each; empty if everything was right. */
export async function deliver(
  root: Root,
  payload: readonly PayloadFile[],
  delivery: Delivery,
  show?: (text: string) => void,
): Promise<string[]> {
  await stage(root, payload, show)
  show?.('installing')
  const { controlPlanes, name, allowHttp, invitation = '' } = delivery
  const args = [
    ...(controlPlanes ? ['--control-plane', controlPlanes] : []),
    ...(name ? ['--name', name] : []),
    ...(allowHttp ? ['--allow-http'] : []),
  ]
  const text = await installer(root, args, `${invitation}\n`)
  await root.must('cleaning up', next, 'rm -rf "$1"', [folder])
  return text.split('\n').flatMap((line) => /^changed: (.*)/.exec(line)?.[1] ?? [])
}

/** Removes the agent, its settings and its identity. */
export async function removeAgent(root: Root, payload: readonly PayloadFile[]): Promise<void> {
  await stage(
    root,
    payload.filter(({ installed }) => !installed),
  )
  await installer(root, ['--uninstall'], '')
  await root.must('cleaning up', next, 'rm -rf "$1"', [folder])
}

function installer(root: Root, args: string[], stdin: string): Promise<string> {
  return root.must(
    'the installer',
    'mend what it names, then run the same command again; on the host: journalctl -u dormouse-agent',
    'installer=$1; shift; exec "$installer" "$@"',
    [`${folder}/scripts/install-agent`, ...args],
    { stdin, timeoutMs: installTimeoutMs },
  )
}

/** Makes the clone's layout on the host. Only what the host does not have is sent, and nothing half is ever under its name. */
async function stage(root: Root, payload: readonly PayloadFile[], show?: (text: string) => void): Promise<void> {
  const words = payload.flatMap(({ path, sha256, installed = '', mode }) => [path, sha256, installed, mode])
  const text = await root.must('preparing the files', next, findScript, [folder, ...words])
  const wanted = new Set(text.split('\n'))
  const missing = payload.filter(({ path }) => wanted.has(path))
  if (missing.length > 0) await send(root, missing, show)
}

const mib = (bytes: number): string => (bytes / 1024 / 1024).toFixed(0)

/** Prints the paths that must be sent. A right copy that is installed is linked: it need not be sent. */
const findScript = `
is() { [ "$(sha256sum <"$1" 2>/dev/null)" = "$2  -" ]; }
umask 077
folder=$1
shift
while [ $# -gt 0 ]; do
  staged=$folder/$1
  mkdir -p "$(dirname "$staged")" || exit 1
  if [ -f "$staged" ] && is "$staged" "$2"; then chmod "$4" "$staged"
  elif [ -n "$3" ] && is "$3" "$2" && { ln -f "$3" "$staged" 2>/dev/null || cp -p "$3" "$staged"; }; then :
  else echo "$1"; fi
  shift 4
done`

/** Takes the files from one stream, in order: path, bytes, SHA-256 and mode of each are the arguments. */
const receiveScript = `
folder=$1
shift
gzip -d | while [ $# -gt 0 ]; do
  staged=$folder/$1
  head -c "$2" >"$staged.part" || exit 1
  [ "$(sha256sum <"$staged.part")" = "$3  -" ] || { echo "$1 did not arrive whole" >&2; exit 1; }
  chmod "$4" "$staged.part" && mv "$staged.part" "$staged" || exit 1
  shift 4
done`

async function send(root: Root, files: readonly PayloadFile[], show: ((text: string) => void) | undefined) {
  const total = files.reduce((sum, { bytes }) => sum + bytes, 0)
  let sent = 0
  async function* contents() {
    for (const { source } of files)
      for await (const chunk of createReadStream(source)) {
        sent += (chunk as Buffer).length
        show?.(`${mib(sent)} of ${mib(total)} MiB`)
        yield chunk as Buffer
      }
  }
  const stdin = createGzip({ level: constants.Z_BEST_SPEED })
  Readable.from(contents())
    .on('error', (error) => stdin.destroy(error))
    .pipe(stdin)
  const words = files.flatMap(({ path, bytes, sha256, mode }) => [path, String(bytes), sha256, mode])
  await root.must('sending the files', next, receiveScript, [folder, ...words], { stdin, timeoutMs: uploadTimeoutMs })
}
