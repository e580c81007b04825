#!/bin/sh
# check_layers.sh accepts a clean tree and refuses one broken include of every kind.
# Usage: check_layers_test.sh CHECK
set -eu
check=$1
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

clean_tree() {
  rm -rf "$tree/libsim" "$tree/libexec"
  mkdir -p "$tree/libsim/model" "$tree/libsim/plan" "$tree/libsim/engine" "$tree/libexec/kernels"
  printf 'add_subdirectory(model)\nadd_subdirectory(plan)\nadd_subdirectory(engine)\n' \
    >"$tree/libsim/CMakeLists.txt"
  echo '#include "libsim/model/op.hpp"' >"$tree/libsim/plan/step.hpp"
  echo '#include "libsim/plan/step.hpp"' >"$tree/libsim/plan/step.cpp"
  echo '#include <vector>' >"$tree/libsim/model/op.hpp"
  echo '#include "libsim/model/op.hpp"' >"$tree/libexec/kernels/gelu.hpp"
}

accepts() {
  sh "$check" "$tree" >/dev/null || { echo "refused: $1"; exit 1; }
}
refuses() { # FILE INCLUDE
  clean_tree
  printf '#pragma once\n  # include %s\n' "$2" >>"$tree/$1"
  if sh "$check" "$tree" >"$tree/output"; then
    echo "accepted: $1 includes $2"
    exit 1
  fi
  grep -qF "$1" "$tree/output" || { echo "did not name $1:"; cat "$tree/output"; exit 1; }
}

clean_tree
accepts "a clean tree"
refuses libsim/model/op.hpp '"libsim/plan/step.hpp"'
refuses libsim/plan/step.cpp '"libsim/engine/simulation.hpp"'
refuses libsim/plan/step.cpp '"libsim/nowhere/thing.hpp"'
refuses libsim/engine/simulation.cpp '<cuda_runtime.h>'
refuses libsim/engine/simulation.cpp '<nccl.h>'
refuses libsim/engine/simulation.cpp '<cublasLt.h>'
refuses libsim/engine/simulation.cpp '<mpi.h>'
refuses libsim/engine/simulation.cpp '<openmpi/mpi.h>'
refuses libsim/engine/simulation.cpp '"libexec/kernels/gelu.hpp"'
refuses libexec/kernels/gelu.hpp '"libsim/engine/simulation.hpp"'
refuses libexec/kernels/gelu.cu '"libsim/engine/simulation.hpp"'

clean_tree
mkdir "$tree/libsim/stray"
if sh "$check" "$tree" >/dev/null; then echo "accepted: a folder outside the order"; exit 1; fi
