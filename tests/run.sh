#!/usr/bin/env bash
# Builds and runs the tests; installs missing Debian packages by itself.
#
# usage: tests/run.sh [--all | --nightly] [--cuda] [--python]
#   --all      what continuous integration runs: also the format, the build without tests, the reproduction of the paper, an
#              installation, reports in a browser, sanitizers, and, of the sources that changed since the commit in
#              tests/checked_commit, clang-tidy and each source compiled alone. The tests of the libraries are built once,
#              with the sanitizers; those of the programs, kernels and speed optimized.
#              A commit that has passed it, or the nightly run, belongs into tests/checked_commit.
#   --nightly  all of it: every source, every test optimized and with the sanitizers, fuzzers, mutations.
#   --cuda     with --all or --nightly: CUDA's compiler on the kernels that changed. Needs the CUDA Toolkit and NCCL.
#   --python   with --all or --nightly: the Python package, in the nightly run its wheel too. Needs PyPI.
#
# Stops at the first step that fails. The last line counts each test, and each other step, once; lines
# before it name what was skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

mode=tests
with_cuda=OFF
with_python=OFF
for option in "$@"; do
  case "$option" in
    --all) mode=all ;;
    --nightly) mode=nightly ;;
    --cuda) with_cuda=ON ;;
    --python) with_python=ON ;;
    *)
      echo "run.sh: found '$option'; accepted: --all, --nightly, --cuda, --python" >&2
      exit 2
      ;;
  esac
done

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

# configure PRESET [OPTION...]
configure() {
  mkdir -p build
  cmake --preset "$@" >build/configure.log || { cat build/configure.log && return 1; }
}

# build_and_test PRESET [OPTION...]: builds all of a preset and runs its tests.
build_and_test() {
  local log=build/$1/tests.log status=0
  configure "$@"
  cmake --build --preset "$1"
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

# The sources, of those whose path matches a pattern, that changed since the checked commit; all of them in the nightly run
# and where that commit is not known.
changed_sources() {
  tests/changed.py "$(checked_commit)" sources | grep -E "$1" || true
}

# The last commit whose changes were checked; for the nightly run none.
checked_commit() { [ "$mode" = nightly ] && echo none || cat tests/checked_commit; }

sources() { find libsim libexec apps tests experiments -name '*.[ch]pp' -o -name '*.cu' -o -name '*.cuh'; }

check_format() { sources | xargs -P 2 -n 100 clang-format-14 --dry-run --Werror; }

# As someone builds who has no Catch2.
build_without_tests() {
  configure plain -DCMAKE_DISABLE_FIND_PACKAGE_Catch2=ON
  cmake --build build/plain
}

# Whether an installation serves programs that know nothing of this folder.
use_installation() { tests/install/run.sh build/plain build/install; }

# CUDA's compiler on the kernels that changed since the checked commit; and which changed since a device last ran their
# tests (libexec/kernels/cuda/tested_on_device).
compile_kernels() {
  local kernels
  tests/changed.py "$(cat libexec/kernels/cuda/tested_on_device)" kernels | sed 's/^/not tested on a device since its last change: /'
  kernels=$(tests/changed.py "$(checked_commit)" kernels)
  [ -n "$kernels" ] || return 0
  configure cuda -DBUILD_TESTING=OFF -DCMAKE_CUDA_ARCHITECTURES=90
  sed 's#libexec/kernels/cuda/#&CMakeFiles/stagecraft_exec_cuda_kernels.dir/#; s#$#.o#' <<<"$kernels" | xargs ninja -C build/cuda
}

# Compiles sources, and headers without a source, alone: what they use and do not include is missing there.
compile_alone() {
  configure alone -DWITH_CUDA=$with_cuda -DWITH_NCCL=$with_cuda
  cmake --build build/alone --target stagecraft_git_commit stagecraft_page_files
  changed_sources '^(libsim|libexec|apps)/.*\.[ch]pp$' | sed 'p; s/hpp$/cpp/' >build/alone/changed
  # The object of a source, or of a source that includes a header alone, is named after it.
  ninja -C build/alone -t targets all | sed -nE 's#^(.*\.o): CXX_COMPILER.*#\1#p' |
    awk 'NR == FNR { changed[$0]; next }
         { path = $0
           if (sub(/^.*_verify_interface_header_sets\//, "", path)) sub(/\.cxx\.o$/, "", path)
           else { sub(/\/CMakeFiles\/[^\/]*\.dir\//, "/", path); sub(/\.o$/, "", path) } }
         path in changed' build/alone/changed - >build/alone/objects
  [ ! -s build/alone/objects ] || xargs ninja -C build/alone -k 0 <build/alone/objects
}

# clang-tidy does not know CUDA's newer versions: it reads no kernels.
run_tidy() {
  local files
  files=$(changed_sources '^(libsim|libexec|apps)/.*\.cpp$' | sed "s#^#^$PWD/#; s#\$#\$#")
  [ -n "$files" ] || return 0
  xargs run-clang-tidy-14 -p build/alone -quiet <<<"$files" >build/tidy.log 2>&1 ||
    { grep -E 'warning:|error:' -A 4 build/tidy.log && return 1; }
}

# The Python package in the build folder of the tests.
test_python() { tests/python/run.sh build/release; }

# Reports as a browser shows them.
open_in_browser() {
  /usr/bin/python3 tests/browser/report_test.py build/release/apps/stagecraft/stagecraft configs/paper
}

# What ranks that are threads do together, with OpenBLAS, into which the sanitizer cannot see, and
# with plain products. Addresses are not randomized: GCC 12's sanitizer does not know all the places
# where newer kernels put things.
run_four_ranks_with_tsan() {
  local target targets=(test_executor_four_ranks test_exec_comm)
  configure tsan
  cmake --build --preset tsan --target "${targets[@]}"
  for target in "${targets[@]}"; do
    TSAN_OPTIONS=halt_on_error=1 setarch -R "$(find build/tsan/tests -name "$target" -type f)"
  done
}

# Runs each tests/fuzz/X_fuzz.cpp for ten minutes, with the seeds of X_seeds/ and, if there is one, the dictionary X.dict.
# (As tests of the preset asan they run on the seeds alone.)
run_fuzzers() {
  local source name corpus
  configure fuzz
  cmake --build --preset fuzz
  for source in tests/fuzz/*_fuzz.cpp; do
    name=$(basename "$source" _fuzz.cpp)
    corpus=build/fuzz/corpus/$name
    mkdir -p "$corpus"
    local options=(-max_total_time=600 -timeout=10 -print_final_stats=1 -artifact_prefix=build/fuzz/)
    [ ! -f "tests/fuzz/$name.dict" ] || options+=("-dict=tests/fuzz/$name.dict")
    "build/fuzz/tests/fuzz/${name}_fuzz" "${options[@]}" "$corpus" "tests/fuzz/${name}_seeds" \
      >"build/fuzz/$name.log" 2>&1 || { tail -n 60 "build/fuzz/$name.log" && return 1; }
    printf '%s: %s runs\n' "$name" "$(sed -n 's/^stat::number_of_executed_units: *//p' "build/fuzz/$name.log")"
  done
}

run_mutations() {
  tests/mutations/run.py
  tests/mutations/constants.py
  tests/mutations/terms.py
}

# The same sources are compiled several times: with tests and without, here and in other clones.
use_compiler_cache() {
  command -v ccache >/dev/null || return 0
  export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache CMAKE_CUDA_COMPILER_LAUNCHER=ccache
  export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 CCACHE_SLOPPINESS=pch_defines,time_macros
}

if [ "$mode" = tests ]; then
  step 'packages' experiments/packages.sh build test mpi
  use_compiler_cache
  step 'tests' build_and_test release
  exit
fi

step 'packages' experiments/packages.sh build test mpi checks python browser
use_compiler_cache
step 'clang-format' check_format
step 'build without tests' build_without_tests
step 'reproduction of the paper' experiments/reproduce.sh
step 'use of an installation' use_installation
if [ "$mode" = nightly ]; then
  STAGECRAFT_DRAWN_SEARCHES=200 step 'tests' build_and_test release
else
  step 'tests of optimized code' build_and_test release -DLIBRARY_TESTS=OFF
fi
[ $with_python = OFF ] || step 'Python package' test_python
step 'browser' open_in_browser
step 'tests with address and undefined-behaviour sanitizers' build_and_test asan
step 'four ranks with the thread sanitizer' run_four_ranks_with_tsan
[ $with_cuda = OFF ] || step 'CUDA kernels' compile_kernels
step 'sources compiled alone' compile_alone
step 'clang-tidy' run_tidy
if [ "$mode" = nightly ]; then
  [ $with_python = OFF ] || step 'wheel in a clean environment' experiments/wheel.sh
  step 'fuzzers' run_fuzzers
  step 'mutations' run_mutations
fi
