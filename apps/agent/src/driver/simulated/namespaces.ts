// The shell scripts that make a simulated guest: namespaces of this machine with a root folder of their own, for util-linux. Pure text.

/** Where programs are found, on the machine and in a guest. */
export const path = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/** For how long a guest outlives its agent, which may be started again. */
const graceSecs = 30

/** Below a process of the machine: its user becomes root, and all else is the guest's own. */
const asRoot = 'unshare --user --map-root-user'

/**
 * In the guest's namespaces, and in the folder of its disk. Programs and libraries are the machine's, /run and /tmp are memory. Prints the
 * guest's first process as the machine numbers it, then only collects processes that nobody waits for.
 */
const boot = `set -e
umask 022
read -r init _ </proc/self/stat
mount -t tmpfs -o mode=755 guest /tmp
mkdir /tmp/root
mount --no-canonicalize --bind . /tmp/root
exec 3<&-
cd /tmp/root
mkdir -p etc/alternatives root home srv opt mnt var/lib var/log var/tmp usr dev proc sys run tmp
chmod 700 root; chmod 1777 var/tmp
share() { mount --rbind "/$1" "$1"; mount -o remount,bind,ro "$1" 2>/dev/null || :; }
for name in bin sbin lib lib32 lib64 libx32; do
  if [ -L /$name ]; then [ -L $name ] || ln -s "$(readlink /$name)" $name
  elif [ -d /$name ]; then mkdir -p $name; share $name
  fi
done
for name in usr etc/alternatives; do [ ! -d /$name ] || share $name; done
[ -e etc/passwd ] || echo 'root:x:0:0:root:/root:/bin/sh' >etc/passwd
[ -e etc/group ] || echo 'root:x:0:' >etc/group
[ -e etc/hosts ] || echo '127.0.0.1 localhost' >etc/hosts
mount -t tmpfs -o mode=755 run run
mount -t tmpfs -o mode=1777 tmp tmp
mount -t proc proc proc
mount -t tmpfs -o mode=755 dev dev
for name in null zero full random urandom tty; do : >dev/$name; mount --bind /dev/$name dev/$name; done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
for n in 0 1 2; do ln -s /proc/self/fd/$n dev/std$(echo in out err | cut -d' ' -f$((n + 1))); done
echo "$1" >dev/boot_id
mount --bind dev/boot_id proc/sys/kernel/random/boot_id
rm dev/boot_id
hostname simulated 2>/dev/null || :
ip link set lo up 2>/dev/null || :
pivot_root . mnt
cd /
umount -l mnt
echo "init $init"
exec /bin/sh -c 'while :; do sleep 3600 & wait; done' </dev/null >/dev/null 2>&1`

/**
 * Runs outside, in the folder of the guest's disk. Keeps the guest while a process holds the FIFO `held` open, and ends it if none
 * does for a while, or if the FIFO is gone. It is in the folder of descriptor 3.
 */
export const keeper = `umask 077
held=/proc/self/fd/3/held
rm -f $held; mkfifo $held || exit
${asRoot} --mount --pid --uts --ipc --net --fork --kill-child /bin/sh -c '${boot.replaceAll("'", `'\\''`)}' sh "$1" &
guest=$!
exec </dev/null >/dev/null 2>&1
alone=0
while kill -0 $guest && [ -p $held ] && [ $alone -lt ${graceSecs} ]; do
  since=$(date +%s)
  # With a writer of its own it opens at once; without one, it is read until nobody holds it.
  (exec 4<>$held 5<$held 4>&- && exec cat <&5)
  [ $(date +%s) -le $((since + 1)) ] || alone=0
  alone=$((alone + 1))
  sleep 1
done
kill -KILL $guest`

/**
 * Runs `$1` in a guest as an SSH server does: in a session of its own, from root's folder. The shell that waits for it stays
 * outside, so that a guest that is stopped does not stop it.
 */
export const enterArgs = (init: number, script: string): string[] => [
  ...['--target', String(init), '--user', '--preserve-credentials', '--mount', '--uts', '--ipc', '--net', '--pid'],
  ...['--no-fork', '/bin/sh', '-c'],
  'cd /root || cd /; exec 9>&2 2>/dev/null; setsid /bin/sh -c "exec 2>&9 9>&-; $1"; exit $?',
  ...['sh', script],
]

export const environment = { PATH: path, HOME: '/root', USER: 'root', LOGNAME: 'root', SHELL: '/bin/sh' }

/** All processes of a guest but the first. */
export const signalAll = (name: 'STOP' | 'CONT'): string => `kill -${name} -1`

/** An archive of these files; what changes meanwhile, in a guest that runs, is no failure. */
const pack = (files: string) => `tar -cf - ${files}; [ $? -lt 2 ]`
export const packDisk = pack('.')
export const unpackDisk = 'exec tar -xpf -'
/** The files in a guest's memory. */
export const packMemory = pack('-C / run tmp')
export const unpackMemory = 'exec tar -xpf - -C /'

/** In the folder of a disk, whose files have modes that its owner cannot pass. */
export const onDisk = (command: string): string[] => [...asRoot.split(' ').slice(1), '/bin/sh', '-c', command]
