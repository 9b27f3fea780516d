// The shell scripts that deal with the processes of a command: pure text. A command's process leads a group and a session
// of its own, both with its id.

/** Ends the command's whole process group and session, also processes that ignore gentler signals. */
export const killScript = (pid: number): string => `kill -KILL -${pid}; pkill -KILL -s ${pid}; :`

/** The same if the process has run at least that long: after a reboot its id may be another process's. */
export const killIfOldScript = (
  pid: number,
  ageSecs: number,
): string => `read -r s 2>/dev/null </proc/${pid}/stat || exit 0
read -r up rest </proc/uptime
set -- \${s##*) }
[ $((\${up%.*} - \${20} / 100)) -lt ${ageSecs} ] || { ${killScript(pid)}; }
`

/** Goes on reading the pipes that the session's processes hold open, so that they survive their channel. Prints how many. */
export const holdOutputScript = (pid: number): string => `n=0 seen=
for d in /proc/[0-9]*; do
  read -r s 2>/dev/null <$d/stat || continue
  set -- \${s##*) }
  [ "$4" = ${pid} ] || continue
  for f in 1 2; do
    l=$(readlink $d/fd/$f) || continue
    case $l in pipe:*) ;; *) continue;; esac
    case "$seen" in *"$l"*) continue;; esac
    exec 5<$d/fd/$f || continue
    seen="$seen $l" n=$((n + 1))
    setsid cat <&5 >/dev/null 2>&1 &
    exec 5<&-
  done
done
echo $n
`
