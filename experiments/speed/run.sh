#!/bin/sh
# Measures how fast predictions, simulations and the command simulate are, and prints a table: goals,
# and the spread of what was measured. On a busy machine the columns "fastest" and "median cpu" are
# the ones to read.
set -eu
cd "$(dirname "$0")/../.."

{
  ./experiments/packages.sh build
  cmake -G Ninja -B build/plain -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF
  cmake --build build/plain
} >&2
exec build/plain/experiments/speed/measure_speed configs/paper build/plain/apps/stagecraft/stagecraft
