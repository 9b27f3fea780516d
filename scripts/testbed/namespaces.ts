// Shell text for namespaces and mounts: how to enter a private one, and how to mount a deep folder under a short name.

import { spawnSync } from 'node:child_process'

/** Whether this process is root. */
export function isRoot(): boolean {
  return process.getuid?.() === 0
}

/**
 * The command that creates namespaces. BusyBox's comes first: some distributions confine util-linux's `unshare`, so that
 * what it starts has no capabilities, even for root. Undefined if neither can create one, as in most containers.
 */
export function unshareCommand(): string[] | undefined {
  const tools = [['busybox', 'unshare'], ['unshare']]
  return tools.find(([program, ...args]) => {
    const probe = ['-m', '/bin/sh', '-c', 'mount --make-rprivate / && mount -t tmpfs tmpfs /run']
    return spawnSync(program!, [...args, ...probe], { stdio: 'ignore' }).status === 0
  })
}

/**
 * Shell lines that mount an empty /run in this mount namespace, and folders below it. The folders are opened before /run
 * is covered, since they may lie below it themselves.
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

/** Quotes any text as one shell word. */
export function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`
}
