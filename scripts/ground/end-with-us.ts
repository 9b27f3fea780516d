// Ends what a process started when that one ends itself, however that happens: for tests, to whose ground nobody comes back.
// What `npm start` starts is not for this: it lives on, and the next start takes it over.

import { spawn } from 'node:child_process'
import type { Socket } from 'node:net'
import type { Identity } from './processes.ts'

/** Waits for the end of its input, which comes with our own end; a later process with that pid is left alone, a zombie has ended. */
const script = `pid=$1 started=$2 signal=$3 folder=$4
started_of() { sed -n 's/^.*) \\([^ZX] .*\\)/\\1/p' "/proc/$pid/stat" 2>/dev/null | cut -d' ' -f20; }
cat >/dev/null
[ "$(started_of)" = "$started" ] && kill -"$signal" "$pid"
[ -n "$folder" ] || exit 0
while [ "$(started_of)" = "$started" ]; do sleep 0.2; done
rm -rf "$folder"`

/**
 * Sends that process the signal when this one has ended, and then removes the folder, where one is given. Answers what
 * takes this back.
 */
export function endWithUs({ pid, started }: Identity, name: NodeJS.Signals, folder = ''): () => void {
  const since = started.slice(started.indexOf('/') + 1)
  const words = [String(pid), since, name.replace('SIG', ''), folder]
  const guard = spawn('/bin/sh', ['-c', script, 'sh', ...words], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  guard.unref()
  const held = guard.stdin as Socket
  held.unref()
  return () => void guard.kill('SIGKILL')
}
