// Namespaces and mounts as shell text: how to enter a private one, and how to give a deep folder a short name in it.
// Knows nothing of what runs there.

import { spawnSync } from 'node:child_process'

/** Whether this process is root. */
export function isRoot(): boolean {
  return process.getuid?.() === 0
}

/**
 * The command that makes namespaces. BusyBox's is taken first: some distributions confine util-linux's `unshare` so that
 * what it starts has no capabilities, even for root. Undefined where neither may make a mount namespace (most containers).
 */
export function unshareCommand(): string[] | undefined {
  const tools = [['busybox', 'unshare'], ['unshare']]
  return tools.find(([program, ...args]) => {
    const probe = ['-m', '/bin/sh', '-c', 'mount --make-rprivate / && mount -t tmpfs tmpfs /run']
    return spawnSync(program!, [...args, ...probe], { stdio: 'ignore' }).status === 0
  })
}

/**
 * Shell lines that put an empty /run into this mount namespace and mount folders below it. The folders are opened
 * before /run is covered, so that they may themselves lie below it.
 */
export function coverRun(mounts: Record<string, string>): string {
  const entries = Object.entries(mounts)
  const first = 10 - entries.length // dash knows file descriptors of one digit only
  return [
    'mount --make-rprivate /',
    ...entries.map(([, source], i) => `exec ${first + i}< ${quote(source)}`),
    'mount -t tmpfs -o mode=755 tmpfs /run',
    ...entries.flatMap(([name, _], i) => [
      `mkdir -p /run/${name}`,
      `mount --no-canonicalize --bind /proc/self/fd/${first + i} /run/${name}`,
      `exec ${first + i}<&-`,
    ]),
  ].join('\n')
}

/** One word of shell, whatever is in it. */
export function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}
