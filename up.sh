#!/usr/bin/env bash
# Installs what building needs, builds release, and starts a cluster of three nodes on this machine, in the background.
#
#   ./up.sh                the cluster; says what to do next. Again: finds it running, or starts it where it left off
#   ./up.sh --demo         the cluster, then the story of README.md, each command shown as it runs
#   ./up.sh --build-only   stop after build/release/bin/
#   ./up.sh --down         stop the cluster, block processes too; volumes and tickets stay on disk
#
# Environment: MOORING_DIR (state; default ~/.local/share/mooring), MOORING_LISTEN (127.0.0.1:6440), MOORING_NODES (3),
# MOORING_NETNS=1 (each node in its own network namespace), MOORING_SKIP_BUILD=1 (take build/release/bin/ as it is).
set -euo pipefail
cd "$(dirname "$0")"

action=cluster
for argument in "$@"; do
  case "$argument" in
    --build-only) action=build ;;
    --demo) action=demo ;;
    --down) action=down ;;
    -h|--help) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "up.sh: unknown option '$argument' (try --help)" >&2; exit 2 ;;
  esac
done

bin=$PWD/build/release/bin
directory=${MOORING_DIR:-${XDG_DATA_HOME:-$HOME/.local/share}/mooring}

if [ "$action" = down ]; then exec "$bin/moord" dev --dir "$directory" --down; fi

if [ -z "${MOORING_SKIP_BUILD:-}" ]; then
  tools/packages build
  cmake --preset release >/dev/null
  cmake --build --preset release --parallel "$(nproc)" --target programs
  echo "built: $(ls "$bin" | tr '\n' ' ')"
fi
if [ "$action" = build ]; then exit 0; fi

if [ "$(id -u)" -ne 0 ]; then
  echo "up.sh: block devices need root: run it as root or with sudo (--build-only does not need it)" >&2
  exit 1
fi
tools/packages run

options=(--dir "$directory" --listen "${MOORING_LISTEN:-127.0.0.1:6440}")
[ -z "${MOORING_NODES:-}" ] || options+=(--nodes "$MOORING_NODES")
[ -z "${MOORING_NETNS:-}" ] || options+=(--netns)
mkdir -p "$directory/logs"
log=$directory/logs/dev.log

# flock without waiting: moord dev holds the lock for as long as it runs.
if [ -e "$directory/dev.lock" ] && ! flock --nonblock "$directory/dev.lock" true; then
  echo "a cluster is running in $directory already"
else
  : >"$log"
  setsid "$bin/moord" dev "${options[@]}" </dev/null >>"$log" 2>&1 &
  process=$!
  until grep -q '^ready ' "$log"; do
    if ! kill -0 "$process" 2>/dev/null; then
      tail -n 5 "$log" >&2
      echo "up.sh: the cluster did not start; its logs are in $directory/logs" >&2
      exit 1
    fi
    sleep 0.1
  done
  echo "started: $(sed -n 's/^ready //p' "$log") with $(grep -c '^node-.* ready$' "$log") nodes, state and logs in $directory"
fi

if [ "$action" = demo ]; then exec tools/demo; fi

cat <<END

What to do next:
  export PATH=$bin:\$PATH
  moor nodes
  moor volume create v1 --size 1Gi --replicas 3
  moor attach v1 --node node-1 --wait
  export KUBECONFIG=$directory/kubeconfig     (for kubectl)
  ./up.sh --demo                              the story of README.md, told by itself
  ./up.sh --down                              stop everything; volumes stay on disk
END
