#!/bin/sh
# Reproduces the paper's numbers and draws its figures 1, 7, 8 and 9 into build/reproduction/. Takes the pages' picture of a
# report anew.
set -eu
cd "$(dirname "$0")/../.."
./experiments/packages.sh build figures browser >&2
./experiments/reproduce.sh >/dev/null
/usr/bin/python3 experiments/figures/draw.py build/reproduction
/usr/bin/python3 experiments/figures/picture.py build/plain/apps/stagecraft/stagecraft
