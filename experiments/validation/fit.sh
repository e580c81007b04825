#!/bin/sh
# Fits the constants that configs/ marks as fitted to groups of measured runs chosen by a hash, scores them on the other
# groups, and writes them into configs/. Builds the simulator first; runs from any folder.
set -eu
cd "$(dirname "$0")/../.."
{
  ./experiments/packages.sh build scripts
  cmake --preset plain
  cmake --build build/plain --target stagecraft
} >&2
/usr/bin/python3 experiments/validation/fit.py build/plain/apps/stagecraft/stagecraft
# Writes cross_fits.csv: the same constants, fitted without each of the folds that were fitted.
/usr/bin/python3 experiments/validation/cross.py fit build/plain/apps/stagecraft/stagecraft
