// The command that starts a program on a guest's screen. Pure. Its arguments are never part of a shell's text.

/**
 * As the user of the screen, if there is one and the command runs as root, with the environment of the session: without its
 * language, a terminal takes no character beyond ASCII. The user's first program on the display has it. In a session of its own,
 * so that it goes on.
 */
const script = `user=$1 display=$2; shift 2
command -v "$1" > /dev/null || { echo "$1: there is no such program in the desktop; check its name" >&2; exit 127; }
home=$(getent passwd "$user" 2> /dev/null | cut -d: -f6)
if [ "$(id -u)" != 0 ] || [ -z "$home" ]; then
  DISPLAY=$display setsid "$@" < /dev/null > /dev/null 2>&1 &
  exit
fi
uid=$(id -u "$user") run=/run/user/$(id -u "$user") session=/dev/null
for pid in $(cd /proc && grep -slzxF "DISPLAY=$display" [0-9]*/environ | sort -n | cut -d/ -f1); do
  if [ "$(stat -c %u "/proc/$pid" 2> /dev/null)" = "$uid" ]; then session=/proc/$pid/environ; break; fi
done
cd "$home" || exit 1
{
  printf '%s\\0' HOME="$home" USER="$user" LOGNAME="$user" DISPLAY="$display" XDG_RUNTIME_DIR="$run" \\
    DBUS_SESSION_BUS_ADDRESS="unix:path=$run/bus"
  grep -sz '^[A-Za-z_][A-Za-z_0-9]*=' "$session"
  printf '%s\\0' "$@"
} | xargs -0 -x setpriv --reuid="$user" --regid="$(id -g "$user")" --init-groups setsid --fork env > /dev/null 2>&1`

export function shown(
  words: readonly string[],
  { user = 'user', display = ':0' }: { user?: string | undefined; display?: string | undefined } = {},
): string[] {
  return ['/bin/sh', '-c', script, 'sh', user, display, ...words]
}
