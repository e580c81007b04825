#!/bin/sh
# Measures the CPU kernels of one Transformer layer, op by op, and prints a table.
#
# usage: experiments/kernels/run.sh [PRECISION [ATTENTION [THREADS]]]   (fp32 unfused 2)
set -eu
cd "$(dirname "$0")/../.."

{
  ./experiments/packages.sh build
  cmake --preset plain
  cmake --build build/plain --target measure_kernels
} >&2
exec build/plain/experiments/kernels/measure_kernels "$@"
