#!/usr/bin/env bash
# Installs what the tests need, builds, and runs them.
#
#   ./test.sh                 everything (release build, all tests, sanitizers on the rooms at the bottom)
#   ./test.sh fast            the inner loop: debug build, tests that take milliseconds
#   ./test.sh asan | tsan     all tests of the rooms under a sanitizer
#   ./test.sh tidy            formatting, the house rules, clang-tidy
#   ./test.sh NAME…           tests whose name matches (release build), e.g. ./test.sh StoreContract
set -euo pipefail
cd "$(dirname "$0")"

jobs=$(nproc)
banner() { printf '\n== %s\n' "$*"; }

build() {  # preset [target…]
  local preset=$1; shift
  banner "build $preset"
  cmake --preset "$preset" >/dev/null
  cmake --build --preset "$preset" --parallel "$jobs" ${1:+--target "$@"}
}

run() {  # preset ctest-arguments…
  local preset=$1; shift
  banner "test $preset $*"
  ctest --test-dir "build/$preset" --output-on-failure --no-tests=error "$@"
}

# Rooms whose memory errors would harm data, and the programs that they are part of under real clients and kills;
# cheap enough for every run.
sanitized=(base_test store_test store_embedded_test block_core_test block_replica_test engine_test engine_world_test
           engine_cluster_test)
run_sanitized() {
  for test in "${sanitized[@]}"; do
    banner "asan $test"
    RC_PARAMS="max_success=25" MOOR_MODEL_SEQUENCES=200 "build/asan/tests/$test" --gtest_brief=1
  done
}

case "${1:-all}" in
  -h|--help) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 0 ;;
esac

tools/packages test

case "${1:-all}" in
  all)
    build release
    run release -L fast -j "$jobs"
    run release -LE fast
    build asan "${sanitized[@]}"
    run_sanitized
    ;;
  fast) build dev; run dev -L fast -j "$jobs" ;;
  asan|tsan) build "$1" fast_tests; run "$1" -L fast -j "$jobs" ;;
  tidy)
    tools/tidy.py
    tools/format --check
    tools/clang_tidy
    ;;
  *)
    build release
    pattern=$(IFS='|'; echo "$*")
    run release -R "$pattern"
    ;;
esac
