#!/usr/bin/env bash
# Builds and runs the tests; installs missing Debian packages by itself.
#
# usage: tests/run.sh [--all]
#   --all  also clang-format, headers without a source compiled alone, the build without tests, a program that uses an
#          installation, the Python package, clang-tidy, reports in a browser, sanitizers, fuzzers
#
# Stops at the first step that fails. The last line counts each test, and each other step, once; lines
# before it name what was skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

all=false
case "$*" in
  '') ;;
  --all) all=true ;;
  *)
    echo "run.sh: found '$*'; accepted: nothing, or --all" >&2
    exit 2
    ;;
esac

passed=0
failed=0
skipped=
durations=
current='start'

finish() {
  local status=$?
  if [ "$status" -ne 0 ]; then
    [ "$failed" -gt 0 ] || failed=1
    printf '\nFAILED: %s\n' "$current"
  fi
  printf '\n%s%s%d passed, %d failed\n' "$durations" "$skipped" "$passed" "$failed"
}
trap finish EXIT

# step NAME COMMAND...: runs it under a heading and takes its time. A command that runs tests counts
# them; any other counts as one.
step() {
  local begin=$SECONDS before=$passed skipped_before=$skipped
  current=$1
  shift
  printf '\n=== %s\n' "$current"
  "$@"
  [ "$passed" -gt "$before" ] || [ "$skipped" != "$skipped_before" ] || passed=$((passed + 1))
  durations+=$(printf '%5d s  %s' $((SECONDS - begin)) "$current")$'\n'
}

# Configures a preset and builds it, or only the given targets. Kernels are compiled for one kind of device:
# they take ten minutes for two, and none is here to run them.
build() {
  local preset=$1 options=()
  shift
  mkdir -p build
  [ "$preset" != cuda ] || options=(-DCMAKE_CUDA_ARCHITECTURES=90)
  cmake --preset "$preset" "${options[@]}" >build/configure.log || { cat build/configure.log && return 1; }
  cmake --build --preset "$preset" ${1:+--target "$@"}
}

build_and_test() {
  local log=build/$1/tests.log status=0
  build "$1"
  ctest --preset "$1" | tee "$log" || status=$?
  local bad total
  read -r bad total < <(sed -nE 's/.*, ([0-9]+) tests failed out of ([0-9]+)$/\1 \2/p' "$log") || true
  local names
  names=$(sed -nE 's/^\s+[0-9]+ - (.*) \(Skipped\)$/skipped: \1/p' "$log")
  skipped+=${names:+$names$'\n'}
  failed=$((failed + ${bad:-0}))
  passed=$((passed + ${total:-0} - ${bad:-0} - $(grep -c . <<<"$names" || true)))
  return "$status"
}

sources() { find libsim libexec apps tests experiments -name '*.[ch]pp' -o -name '*.cu' -o -name '*.cuh'; }

check_format() { sources | xargs clang-format-14 --dry-run --Werror; }

build_headers_alone() { build "$preset" all_verify_interface_header_sets; }

# As someone builds who has no Catch2.
build_without_tests() {
  cmake --preset plain -DCMAKE_DISABLE_FIND_PACKAGE_Catch2=ON >build/configure.log ||
    { cat build/configure.log && return 1; }
  cmake --build build/plain
}

# Whether an installation serves programs that know nothing of this folder.
use_installation() { tests/install/run.sh build/plain build/install; }

# Reads the sources of a library as one file, which includes them: most of the time goes into what they
# include. (It does not know CUDA's newer versions.)
run_tidy() {
  local options=()
  [ "$preset" = cuda ] || options=(-DWITH_CUDA=OFF -DWITH_NCCL=OFF)
  cmake --preset tidy "${options[@]}" >build/configure.log || { cat build/configure.log && return 1; }
  cmake --build build/tidy --target stagecraft_git_commit stagecraft_page_files
  run-clang-tidy-14 -p build/tidy -quiet -checks=-bugprone-suspicious-include \
    "^$PWD/(build/tidy/(libsim|libexec|apps)/.*/unity_[0-9]+_cxx\\.cxx|(libsim|libexec|apps)/.*\\.cpp)$" >build/tidy.log 2>&1 ||
    { grep -E 'warning:|error:' -A 4 build/tidy.log && return 1; }
}

# The Python package in the build folder of the tests. Its tools come from PyPI: where that cannot be
# reached, the step is skipped and the last lines say so.
test_python() {
  experiments/packages.sh python
  local probe=build/python-probe
  if python3 -m venv "$probe" && "$probe/bin/pip" download -q --no-deps -d "$probe" nanobind; then
    tests/python/run.sh "build/$preset"
  else
    skipped+=$'skipped: the Python package, for PyPI cannot be reached\n'
  fi
}

# Reports as a browser shows them.
open_in_browser() {
  experiments/packages.sh browser
  /usr/bin/python3 tests/browser/report_test.py "build/$preset/apps/stagecraft/stagecraft" configs/paper
}

# What ranks that are threads do together, with OpenBLAS, into which the sanitizer cannot see, and
# with plain products. Addresses are not randomized: GCC 12's sanitizer does not know all the places
# where newer kernels put things.
run_four_ranks_with_tsan() {
  local target targets=(test_executor_four_ranks test_exec_comm)
  build tsan "${targets[@]}"
  for target in "${targets[@]}"; do
    TSAN_OPTIONS=halt_on_error=1 setarch -R "$(find build/tsan/tests -name "$target" -type f)"
  done
}

# Runs each tests/fuzz/X_fuzz.cpp, with the seeds of X_seeds/ and, if there is one, the dictionary X.dict.
run_fuzzers() {
  local source name corpus targets=()
  for source in tests/fuzz/*_fuzz.cpp; do targets+=("$(basename "$source" .cpp)"); done
  build fuzz "${targets[@]}"
  for source in tests/fuzz/*_fuzz.cpp; do
    name=$(basename "$source" _fuzz.cpp)
    corpus=build/fuzz/corpus/$name
    mkdir -p "$corpus"
    local options=(-max_total_time=7 -timeout=10 -print_final_stats=1 -artifact_prefix=build/fuzz/)
    [ ! -f "tests/fuzz/$name.dict" ] || options+=("-dict=tests/fuzz/$name.dict")
    "build/fuzz/tests/fuzz/${name}_fuzz" "${options[@]}" "$corpus" "tests/fuzz/${name}_seeds" \
      >"build/fuzz/$name.log" 2>&1 || { tail -n 60 "build/fuzz/$name.log" && return 1; }
    printf '%s: %s runs\n' "$name" "$(sed -n 's/^stat::number_of_executed_units: *//p' "build/fuzz/$name.log")"
  done
}

# The same sources are compiled several times: with tests and without, here and in other clones.
use_compiler_cache() {
  command -v ccache >/dev/null || return 0
  export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache CMAKE_CUDA_COMPILER_LAUNCHER=ccache
  export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
}

# CUDA and NCCL are compiled if there is an nvcc; their tests run on a CPU.
preset=release
if $all; then
  if command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then preset=cuda; fi
  step 'packages' experiments/packages.sh build test mpi checks
  step 'clang-format' check_format
else
  step 'packages' experiments/packages.sh build test mpi
fi
use_compiler_cache
step 'tests' build_and_test "$preset"
if $all; then
  step 'headers compiled alone' build_headers_alone
  step 'build without tests' build_without_tests
  step 'reproduction of the paper' experiments/reproduce.sh
  step 'use of an installation' use_installation
  step 'Python package' test_python
  step 'browser' open_in_browser
  step 'clang-tidy' run_tidy
  step 'tests with address and undefined-behaviour sanitizers' build_and_test asan
  step 'four ranks with the thread sanitizer' run_four_ranks_with_tsan
  step 'fuzzers' run_fuzzers
fi
