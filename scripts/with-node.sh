#!/bin/sh
# Runs a TypeScript file with the project's own Node, after installing npm packages if they are missing or outdated.
# `--runtime` leaves out the packages that only checks and tests need.
# Plain sh, because the machine's Node may have any version. Each step is this process or is ended with it, so that a signal to
# it, or to the npm that runs it, leaves nothing behind.
set -eu
cd "$(dirname "$0")/.."
want=full
if [ "$1" = --runtime ]; then
  want=runtime
  shift
fi
# npm in the background: the shell acts on a signal only between commands.
install() {
  npm "$@" --prefer-offline --no-audit --no-fund --loglevel=error >&2 &
  trap 'kill $!; wait $!; exit 130' INT TERM HUP
  wait $!
  trap - INT TERM HUP
}
lock=node_modules/.dormouse-lock
have=$(cat node_modules/.dormouse-have 2>/dev/null || true)
omit=
if [ ! -x node_modules/.bin/node ]; then
  echo "Installing npm packages…" >&2
  if [ $want = runtime ]; then omit=--omit=dev; fi
  install ci $omit
elif ! cmp -s package-lock.json $lock || [ "$have" = runtime ] && [ $want = full ]; then
  # Only what is missing or has changed: programs that run from this folder keep running.
  echo "Updating npm packages…" >&2
  if [ "$have" = runtime ] && [ $want = runtime ]; then omit=--omit=dev; else want=full; fi
  install install --no-save $omit
else
  want=$have
fi
cp package-lock.json $lock
echo $want > node_modules/.dormouse-have
PATH="$PWD/node_modules/.bin:$PATH"
export PATH
exec node "$@"
