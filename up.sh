#!/usr/bin/env bash
# Installs what building needs, builds release, and starts what exists so far.
#
#   ./up.sh                a short proof of the store: write, kill, check
#   ./up.sh --build-only   stop after build/release/bin/
set -euo pipefail
cd "$(dirname "$0")"

build_only=false
for argument in "$@"; do
  case "$argument" in
    --build-only) build_only=true ;;
    -h|--help) sed -n '2,5s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "up.sh: unknown option '$argument' (try --help)" >&2; exit 2 ;;
  esac
done

tools/packages build
cmake --preset release >/dev/null
cmake --build --preset release --parallel "$(nproc)" --target programs
echo "built: $(ls build/release/bin | tr '\n' ' ')"
if $build_only; then exit 0; fi
exec tools/first_steps
