#!/bin/sh
# Tries a wheel where nothing but Debian's base system and a Python is: in a chroot that debootstrap makes, without
# network. What the wheel needs from PyPI is downloaded before. Needs root.
#
# usage: experiments/wheel_chroot.sh WHEEL [PYTHON]
#   PYTHON  an interpreter that the wheel is for (default: /usr/bin/python3); one that is not Debian's is copied into
#           the chroot with its whole prefix
#
# The chroot is build/wheel-chroot, and is used again.
set -eu
if [ $# -lt 1 ] || [ ! -f "$1" ] || [ "$(id -u)" != 0 ]; then
  echo "wheel_chroot.sh: found '$*' as user $(id -u); accepted: a wheel, as root" >&2
  exit 2
fi
wheel=$(readlink -f "$1")
python=${2:-/usr/bin/python3}
cd "$(dirname "$0")/.."
bare=$PWD/build/wheel-chroot
if [ ! -f "$bare/complete" ]; then
  experiments/packages.sh chroot
  rm -rf "$bare"
  debootstrap --variant=minbase --include=python3,python3-venv bookworm "$bare"
  touch "$bare/complete"
fi
prefix=$("$python" -c 'import sys; print(sys.prefix)')
if [ "$prefix" != /usr ] && [ ! -d "$bare$prefix" ]; then
  mkdir -p "$bare$prefix"
  cp -a "$prefix/." "$bare$prefix/"
fi

trial=$bare/trial
rm -rf "$trial"
mkdir -p "$trial/packages" "$trial/empty"
"$python" -m pip download -q --disable-pip-version-check --only-binary=:all: -d "$trial/packages" \
  "$wheel[pandas,matplotlib,tqdm]" h5py
cp experiments/wheel_trial.py "$trial/"
# A name space of its own, so that no file system stays mounted.
unshare --mount --net sh -eu -c '
  mount -t proc proc "$1/proc"
  chroot "$1" /usr/bin/env -i PATH=/usr/bin:/bin HOME=/root sh -eu -c "
    $2 -m venv /trial/venv
    /trial/venv/bin/pip install -q --no-index --find-links /trial/packages \"stagecraft[pandas,matplotlib,tqdm]\" h5py
    cd /trial/empty
    PATH=/trial/venv/bin:/usr/bin:/bin python -I /trial/wheel_trial.py
  "' sh "$bare" "$python"
