// Control groups for a private libvirt, as every host of the distribution's has them: without, libvirt weighs no guest.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { PrivateLibvirtd } from '../../../scripts/testbed/libvirtd.ts'

const mount = `set -e
[ -d /sys/fs/cgroup/cpu ] && exit 0
mount -t tmpfs tmpfs /sys/fs/cgroup
mkdir /sys/fs/cgroup/cpu
mount -t cgroup -o cpu cgroup /sys/fs/cgroup/cpu`

export async function enableCgroups({ exec, shortDir, restartDaemon }: PrivateLibvirtd): Promise<void> {
  await exec('/bin/sh', '-c', mount)
  const file = join(shortDir, 'libvirt/etc/qemu.conf')
  writeFileSync(file, readFileSync(file, 'utf8').replace('cgroup_controllers = []', 'cgroup_controllers = ["cpu"]'))
  await restartDaemon()
}
