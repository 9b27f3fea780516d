// A time limit for a program within a script: pure text. Not the program `timeout`: BusyBox's holds the output open for up to
// a second after its program has ended.

/** Defines `limited SECS COMMAND…`, which runs the command and returns its exit code. The watcher ends with it. */
export const limitedFunction = `limited() {
  limit=$1; shift
  "$@" & job=$!
  {
    n=0
    while sleep 1; do n=$((n + 1)); [ $n -lt $limit ] || kill -KILL $job; done
  } </dev/null >/dev/null 2>&1 4>&- &
  watcher=$!
  wait $job; code=$?
  kill $watcher 2>/dev/null
  return $code
}
`
