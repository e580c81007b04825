#!/bin/sh
# Builds the Python module in a build folder that may have everything else already, and runs its tests;
# installs what is missing by itself, PyPI's packages into BUILD/python-venv.
#
# usage: tests/python/run.sh BUILD
#   BUILD  a configured build folder, such as build/release; or, with the sanitizers of addresses, undefined behaviour
#          and leaks, build/asan
set -eu
cd "$(dirname "$0")/../.."
if [ $# -ne 1 ] || [ ! -f "$1/CMakeCache.txt" ]; then
  echo "run.sh: found '$*'; accepted: a configured build folder, such as build/release" >&2
  exit 2
fi
build=$(cd "$1" && pwd)
venv=$build/python-venv

experiments/packages.sh python
[ -x "$venv/bin/python" ] || /usr/bin/python3 -m venv "$venv"
if ! cmp -s tests/python/requirements.txt "$venv/requirements.txt"; then
  "$venv/bin/pip" install -q --disable-pip-version-check -r tests/python/requirements.txt
  cp tests/python/requirements.txt "$venv/requirements.txt"
fi

cmake -B "$build" -DWITH_PYTHON=ON -DPython_EXECUTABLE="$venv/bin/python" >"$build/python-configure.log" 2>&1 ||
  { cat "$build/python-configure.log" && exit 1; }
cmake --build "$build" --target stagecraft stagecraft_python
# The folder's other users, such as clang-tidy, are spared what only this script needs.
cmake -B "$build" -DWITH_PYTHON=OFF >/dev/null

(cd apps/python && "$venv/bin/mypy" --strict --cache-dir "$build/mypy" stagecraft)
cd tests/python
run_tests() {
  PYTHONPATH=$build/apps/python PYTHONDONTWRITEBYTECODE=1 STAGECRAFT_PROGRAM=$build/apps/stagecraft/stagecraft \
    "$venv/bin/python" -W error::ResourceWarning -m unittest -v
}
if ! grep -q '^CMAKE_CXX_FLAGS:.*-fsanitize=address' "$build/CMakeCache.txt"; then
  run_tests
  exit
fi

# The interpreter is built without sanitizers, so that theirs has to come first, with the C++ library whose
# exceptions it watches; small objects of Python are then allocated one by one.
log=$build/python-tests.log
status=0
(
  export PYTHONMALLOC=malloc UBSAN_OPTIONS=print_stacktrace=1 LSAN_OPTIONS=fast_unwind_on_malloc=0
  LD_PRELOAD="$(gcc -print-file-name=libasan.so):$(gcc -print-file-name=libstdc++.so.6)"
  export LD_PRELOAD
  run_tests
) >"$log" 2>&1 || status=$?
cat "$log"
# CPython and numpy keep a few numbers to the end of the process (`import random, numpy` is enough), and what else lies
# in memory decides which of them look lost. A leak is ours if a function of ours is in its stack.
if [ "$status" -ne 0 ] && grep -q '^OK' "$log" && ! grep -q -e 'ERROR: Address' -e 'runtime error:' "$log" &&
  ! grep -Eq '^ +#[0-9]+ .*(_core\.|nanobind|/libsim/|/apps/)' "$log"; then
  echo 'run.sh: the leaks above are not of this package.'
  status=0
fi
exit "$status"
