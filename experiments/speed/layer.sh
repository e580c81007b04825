#!/bin/sh
# Measures one layer of the executor, forward and backward, against PyTorch in eager mode on this
# machine: Debian's, and the current release from PyPI in a virtual environment (TORCH_ENVIRONMENT,
# default build/torch, created if it is missing). Says so if one of them is not available.
#
# usage: experiments/speed/layer.sh [--threads N] [--repeats N]
set -eu
cd "$(dirname "$0")/../.."

environment=${TORCH_ENVIRONMENT:-build/torch}
{
  ./experiments/packages.sh build peers
  cmake --preset plain
  cmake --build build/plain --target measure_layer_speed
  if ! "$environment/bin/python" -c 'import torch'; then
    # The wheel brings CUDA libraries too (3 GB); its CPU kernels are those of the CPU-only one.
    { /usr/bin/python3 -m venv "$environment" && "$environment/bin/pip" install -q torch numpy; } ||
      echo "layer.sh: could not install PyPI's PyTorch into $environment"
  fi
} >&2
exec /usr/bin/python3 experiments/speed/layer.py build/plain/experiments/speed/measure_layer_speed \
  /usr/bin/python3 "$environment/bin/python" "$@"
