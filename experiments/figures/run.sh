#!/bin/sh
# Reproduces the paper's numbers and draws its figures 1, 7, 8 and 9 into build/reproduction/.
set -eu
cd "$(dirname "$0")/../.."
./experiments/packages.sh build figures >&2
./experiments/reproduce.sh >/dev/null
/usr/bin/python3 experiments/figures/draw.py build/reproduction
