// libvirt's limits on a host. Not by the package: a package must not change another one's settings, and apt would ask about them.
import type { Root } from './root.ts'

/**
 * Each boot, restore and save keeps one of libvirt's workers busy until it ends; the agent runs two per processor. A value that
 * the operator has set stays. The package raises the open files of libvirtd, which has that limit after a restart.
 */
const script = `
file=/etc/libvirt/libvirtd.conf
restart=
if [ -f $file ] && ! grep -q '^[[:space:]]*max_workers' $file; then
  workers=$((2 * $(getconf _NPROCESSORS_ONLN) + 20))
  { cat $file && printf '\\n# Set by Dormouse: two for each processor, and 20.\\nmax_workers = %s\\n' $workers; } >$file.new
  chmod --reference=$file $file.new
  mv $file.new $file
  echo "max_workers = $workers"
  restart=yes
fi
show() { systemctl show --property "$1" --value libvirtd; }
limit=$(sed -n 's/^Max open files *\\([0-9]*\\).*/\\1/p' "/proc/$(show MainPID)/limits" 2>/dev/null)
began=$(show ExecMainStartTimestampMonotonic)
# In a container, a restart may not reach that limit: it is tried once.
put=$(stat -c %Z /usr/lib/systemd/system/libvirtd.service.d/dormouse.conf 2>/dev/null)
if [ "\${limit:-65536}" -lt 65536 ] && awk -v began="$began" -v put="$put" -v now="$(date +%s)" \\
  '{ exit !(put > now - ($1 - began / 1e6)) }' /proc/uptime; then
  echo 'open files'
  restart=yes
fi
[ -z "$restart" ] || systemctl try-restart libvirtd`

/** What was raised. */
export async function raiseLimits(root: Root): Promise<string[]> {
  const text = await root.must('raising libvirt’s limits', 'on the host: systemctl status libvirtd', script)
  return text.split('\n').filter(Boolean)
}
