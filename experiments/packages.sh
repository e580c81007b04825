#!/bin/sh
# Installs the Debian 12 packages that are missing.
#
# usage: experiments/packages.sh SET...
#   build   what the programs are built with
#   scripts what experiments/*/run.py need
#   test    what their tests also need
#   mpi     what ranks on several machines (stagecraft-exec run --ranks mpi) need; optional
#   slurm   what experiments/slurm/run.sh also needs: a Slurm on this machine
#   checks  what `tests/run.sh --all` also needs: clang, clang-tidy, clang-format, sanitizers, ccache
#   cudnn   headers that attention by cuDNN is compiled with: PyPI's, into build/cudnn
#   browser what opens reports in tests/browser
#   peers   what experiments/speed/layer.sh compares with: Debian's PyTorch, and what installs PyPI's
#   python  what the Python package is built and tested with, besides what pip installs
#   chroot  what experiments/wheel_chroot.sh makes an empty Debian with
#   figures what draws the figures from the data that `stagecraft reproduce` writes
set -eu

build='g++ cmake ninja-build libboost-program-options-dev libfmt-dev libyaml-cpp-dev libhdf5-dev libeigen3-dev zlib1g-dev
  nlohmann-json3-dev libtomlplusplus-dev libssl-dev libopenblas-pthread-dev'
scripts='python3 python3-h5py'
test='catch2 git python3 python3-h5py python3-yaml bsdutils zsh'
mpi='openmpi-bin libopenmpi-dev'
slurm='slurm-wlm'
checks='clang clang-tidy-14 clang-format-14 libclang-rt-14-dev ccache'
browser='chromium fonts-dejavu-core python3'
figures='python3 python3-matplotlib'
python='python3 python3-dev python3-venv'
chroot='debootstrap'
cudnn='python3 python3-venv'
peers='python3 python3-torch python3-numpy python3-venv'

if [ $# = 0 ]; then
  sed -n '/^# usage/,/^set /s/^# //p' "$0" >&2
  exit 2
fi

wanted=
wants_headers=
for set in "$@"; do
  case $set in
    build) wanted="$wanted $build" ;;
    scripts) wanted="$wanted $scripts" ;;
    test) wanted="$wanted $test" ;;
    mpi) wanted="$wanted $mpi" ;;
    slurm) wanted="$wanted $slurm" ;;
    checks) wanted="$wanted $checks" ;;
    browser) wanted="$wanted $browser" ;;
    figures) wanted="$wanted $figures" ;;
    python) wanted="$wanted $python" ;;
    chroot) wanted="$wanted $chroot" ;;
    peers) wanted="$wanted $peers" ;;
    cudnn)
      wanted="$wanted $cudnn"
      wants_headers=yes
      ;;
    *)
      echo "packages.sh: found '$set'; accepted: build, scripts, test, mpi, slurm, checks, browser, peers, cudnn, python, chroot, figures" >&2
      exit 2
      ;;
  esac
done

if ! command -v dpkg-query >/dev/null; then
  echo "packages.sh: this is not Debian, so nothing is installed; needed are the equivalents of:" >&2
  echo $wanted >&2
  exit 0
fi

missing=
for package in $wanted; do
  # `dpkg -s` also succeeds for a package that was removed and left its configuration behind.
  status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing="$missing $package"
done

# Of PyPI's packages only the headers are kept. A toolkit may have those of cuDNN itself, whose package is large.
cudnn_headers() {
  folder=$(dirname "$0")/../build/cudnn
  [ ! -e "$folder/include/cudnn_frontend.h" ] || return 0
  mkdir -p "$folder"
  python3 -m venv "$folder/pip"
  wheels=nvidia-cudnn-frontend==1.32.0
  [ -e "${CUDA_HOME:-/usr/local/cuda}/include/cudnn_graph.h" ] || wheels="$wheels nvidia-cudnn-cu13==9.19.0.56"
  echo "packages.sh: fetching the headers of: $wheels" >&2
  "$folder/pip/bin/pip" download -q --disable-pip-version-check --no-deps -d "$folder/wheels" $wheels
  python3 - "$folder" <<'END'
import pathlib, sys, zipfile
folder = pathlib.Path(sys.argv[1])
for wheel in (folder / "wheels").glob("*.whl"):
    with zipfile.ZipFile(wheel) as files:
        files.extractall(folder, [name for name in files.namelist() if name.startswith(("include/", "nvidia/cudnn/include/"))])
END
  rm -r "$folder/pip" "$folder/wheels"
}

if [ -z "$missing" ]; then
  [ -z "$wants_headers" ] || cudnn_headers
  exit 0
fi

if [ "$(id -u)" = 0 ]; then
  as_root=
elif command -v sudo >/dev/null; then
  as_root=sudo
else
  echo "packages.sh: neither root nor sudo; as root, run: apt-get install$missing" >&2
  exit 1
fi

# apt's own output is shown only if it fails.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
quietly() {
  $as_root env DEBIAN_FRONTEND=noninteractive "$@" >"$log" 2>&1 </dev/null && return
  cat "$log" >&2
  echo "packages.sh: could not install:$missing" >&2
  exit 1
}
echo "packages.sh: installing:$missing" >&2
quietly apt-get -q update
quietly apt-get -q -y --no-install-recommends install $missing
[ -z "$wants_headers" ] || cudnn_headers
