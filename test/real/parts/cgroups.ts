// Control groups for a private libvirt, as every host of the distribution's has them: without, libvirt weighs no guest. Only where
// the machine has them in their first version: in the second, only the machine's own systemd may make some.
import { readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { PrivateLibvirtd } from '../../../scripts/testbed/libvirtd.ts'

const mount = `mount -t tmpfs tmpfs /sys/fs/cgroup && mkdir /sys/fs/cgroup/cpu &&
mount -t cgroup -o cpu cgroup /sys/fs/cgroup/cpu || umount /sys/fs/cgroup`

/** Whether it has them now. */
export async function enableCgroups({ exec, shortDir, restartDaemon }: PrivateLibvirtd): Promise<boolean> {
  await exec('/bin/sh', '-c', mount)
  if (!(await exec('cat', '/proc/mounts')).includes(' /sys/fs/cgroup/cpu cgroup ')) return false
  const file = join(shortDir, 'libvirt/etc/qemu.conf')
  writeFileSync(file, readFileSync(file, 'utf8').replace('cgroup_controllers = []', 'cgroup_controllers = ["cpu"]'))
  await restartDaemon()
  return true
}

const groups = '/sys/fs/cgroup/cpu/machine'

/** To be called when its host is gone: libvirt was ended before it could remove the groups of its guests. */
export function removeCgroups(): void {
  for (const name of namesIn(groups).filter((each) => each.includes('-dormouse-'))) {
    for (const inner of namesIn(join(groups, name))) remove(join(groups, name, inner))
    remove(join(groups, name))
  }
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder, { withFileTypes: true }).flatMap((each) => (each.isDirectory() ? [each.name] : []))
  } catch {
    return []
  }
}

/** One in use stays. */
function remove(folder: string): void {
  try {
    rmdirSync(folder)
  } catch {
    // A process is in it.
  }
}
