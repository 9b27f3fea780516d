#!/bin/sh
# Runs a TypeScript file with the project's own Node, after installing npm packages where they are missing or old.
# Plain sh, because the Node that happens to be on the machine may be any version.
set -eu
cd "$(dirname "$0")/.."
stamp=node_modules/.dormouse-lock
if [ ! -x node_modules/.bin/node ]; then
  echo "Installing npm packages…" >&2
  npm ci --no-audit --no-fund --loglevel=error >&2
  cp package-lock.json "$stamp"
elif ! cmp -s package-lock.json "$stamp"; then
  # Only what has changed: whatever runs from this folder now goes on running.
  echo "Bringing npm packages up to date…" >&2
  npm install --no-save --no-audit --no-fund --loglevel=error >&2
  cp package-lock.json "$stamp"
fi
PATH="$PWD/node_modules/.bin:$PATH"
export PATH
exec node "$@"
