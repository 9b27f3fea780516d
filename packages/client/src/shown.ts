// The command that starts a program on a guest's screen. Pure. Its arguments are never part of a shell's text.

/** As the user of the screen, where there is one and the command runs as root. In a session of its own, so that it goes on. */
const script = `user=$1; export DISPLAY="$2"; shift 2
command -v "$1" > /dev/null || { echo "$1: there is no such program in the desktop; check its name" >&2; exit 127; }
home=$(getent passwd "$user" 2> /dev/null | cut -d: -f6)
if [ "$(id -u)" = 0 ] && [ -n "$home" ]; then
  run=/run/user/$(id -u "$user")
  set -- setpriv --reuid="$user" --regid="$(id -g "$user")" --init-groups env HOME="$home" USER="$user" LOGNAME="$user" XDG_RUNTIME_DIR="$run" DBUS_SESSION_BUS_ADDRESS="unix:path=$run/bus" "$@"
  cd "$home" || exit 1
fi
setsid "$@" < /dev/null > /dev/null 2>&1 &`

export function shown(
  words: readonly string[],
  { user = 'user', display = ':0' }: { user?: string | undefined; display?: string | undefined } = {},
): string[] {
  return ['/bin/sh', '-c', script, 'sh', user, display, ...words]
}
