// For tests: ends a process when ours ends, in whatever way. `npm start` does not use it: what a killed run leaves behind,
// the next one takes over.

import { spawn } from 'node:child_process'
import type { Socket } from 'node:net'
import type { Identity } from './processes.ts'

/** Its input ends when we end. It leaves a later process with the same pid alone, and takes a zombie for ended. */
const script = `pid=$1 started=$2 signal=$3 folder=$4
started_of() { sed -n 's/^.*) \\([^ZX] .*\\)/\\1/p' "/proc/$pid/stat" 2>/dev/null | cut -d' ' -f20; }
cat >/dev/null
[ "$(started_of)" = "$started" ] && kill -"$signal" "$pid"
[ -n "$folder" ] || exit 0
while [ "$(started_of)" = "$started" ]; do sleep 0.2; done
while read -r _ mounted _; do case "$mounted" in "$folder"/*) umount -l "$mounted" ;; esac; done </proc/self/mounts
rm -rf "$folder"`

/**
 * Sends the signal to that process once ours has ended. Then unmounts what is mounted in the folder, if any, and removes it.
 * Returns a function that cancels.
 */
export function endWithUs({ pid, started }: Identity, name: NodeJS.Signals, folder = ''): () => void {
  const since = started.slice(started.indexOf('/') + 1)
  const args = [String(pid), since, name.replace('SIG', ''), folder]
  const guard = spawn('/bin/sh', ['-c', script, 'sh', ...args], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  guard.unref()
  const held = guard.stdin as Socket
  held.unref()
  return () => void guard.kill('SIGKILL')
}
