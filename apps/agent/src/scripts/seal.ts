// The shell script that removes a guest's identity, before its memory becomes a template, and what it prints: pure text. Each
// copy gets from its host what this removes.
import { z } from 'zod'

/** How long it may take. An emulated desktop takes its time to settle. */
export const sealSecs = 180
const maxHostsBytes = 32 * 1024

/** What a copy's own files are made of. */
export const sealedGuest = z.object({
  hostName: z.string().regex(/^[A-Za-z0-9-]{1,63}$/),
  hosts: z.string().max(maxHostsBytes),
  /** Whether the image has such a file. */
  machineId: z.boolean(),
})
export type SealedGuest = z.infer<typeof sealedGuest>

/** Programs that are seeded when they start: a running one would give every copy the same random numbers. */
const interpreters = 'python*|node|nodejs|deno|bun|ruby*|perl*|php*|java'

/**
 * Waits until the guest has done what it does at its first boot, and uses no processor. Reads what every desktop runs first, so
 * that its pages are in the memory. An SSH server of the image's own has read its host key: it is ended if init starts it
 * again, and waits for a key then; under systemd there can be no template.
 */
export const sealScript = `# seal a template
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
fail() { echo "$1" >&2; exit 1; }
key=/etc/ssh/ssh_host_ed25519_key
n=0
until [ -s $key.pub ]; do n=$((n + 1)); [ $n -le 300 ] || fail 'it has made no SSH host key'; sleep 0.2; done
if command -v systemctl >/dev/null; then
  n=0
  until systemctl is-system-running 2>/dev/null | grep -qE 'running|degraded'; do
    n=$((n + 1)); [ $n -le 120 ] || fail 'systemd has not started everything'; sleep 0.5
  done
  pidof sshd >/dev/null && fail 'it runs an SSH server of its own, which has read its host key'
fi
idle() { set -- $(head -n 1 /proc/stat); echo $(($5 + $6)) $(($2 + $3 + $4 + $5 + $6 + $7 + $8)); }
/usr/sbin/sshd -t 2>/dev/null
for file in /usr/sbin/sshd /bin/sh /bin/bash /usr/bin/env /usr/sbin/resize2fs; do
  [ -r $file ] && cat $file >/dev/null
done
quiet=0 n=0
while [ $quiet -lt 3 ]; do
  n=$((n + 1)); [ $n -le 120 ] || break
  set -- $(idle); sleep 0.5; set -- $1 $2 $(idle)
  if [ $((10 * ($3 - $1))) -ge $((9 * ($4 - $2))) ]; then quiet=$((quiet + 1)); else quiet=0; fi
done
for exe in /proc/[0-9]*/exe; do
  program=$(readlink $exe) || continue
  case \${program##*/} in
    ${interpreters}) fail "it runs $program, whose random numbers would be the same in every copy" ;;
  esac
done
hosts=$(base64 </etc/hosts | tr -d '\\n')
id=no
if [ -e /etc/machine-id ]; then id=yes; : >/etc/machine-id; fi
read -r name </proc/sys/kernel/hostname
echo "$name $id $hosts"
rm -f /etc/ssh/ssh_host_* /var/lib/systemd/random-seed
rm -f /etc/dormouse/authorized_keys* /run/dormouse/authorized_keys*
pids=$(pidof sshd) && kill $pids
sync
exit 0
`

/** Throws if the guest has printed something else. */
export function parseSealed(printed: string): SealedGuest {
  const [hostName = '', id = '', hosts = ''] = printed.trim().split(' ')
  return sealedGuest.parse({
    hostName: hostName.split('.')[0],
    hosts: Buffer.from(hosts, 'base64').toString('utf8'),
    machineId: id === 'yes',
  })
}
