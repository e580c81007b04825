#!/bin/sh
# Measures how fast predictions, simulations and the command simulate are, and prints a table: goals,
# and the spread of what was measured. On a busy machine the columns "fastest" and "median cpu" are
# the ones to read.
set -eu
cd "$(dirname "$0")/../.."

{
  ./experiments/packages.sh build
  cmake --preset plain
  cmake --build build/plain --target stagecraft measure_speed
} >&2
exec build/plain/experiments/speed/measure_speed . build/plain/apps/stagecraft/stagecraft
