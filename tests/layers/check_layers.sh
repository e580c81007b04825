#!/bin/sh
# Checks which folder includes which, by the rules of the layout:
#   * libsim sees no CUDA, NCCL, cuBLAS, MPI or libexec;
#   * a folder of libsim includes only itself and folders that libsim/CMakeLists.txt adds before it;
#   * libexec sees libsim/{units,config,model,plan,hardware,trace} only.
# Usage: check_layers.sh ROOT. Prints each line that breaks a rule; exit code 1 if there is one.
set -eu
cd "$1"

includes() { # of a folder, as FILE:LINE:#include "PATH"
  test -d "$1" || return 0
  grep -rnE '^[[:space:]]*#[[:space:]]*include' "$1" --include='*.hpp' --include='*.cpp' \
    --include='*.h' --include='*.cu' --include='*.cuh' --include='*.in' || true
}

order=$(sed -nE 's/^add_subdirectory\(([a-z_]+)\).*/\1/p' libsim/CMakeLists.txt)
test -n "$order" || { echo "libsim/CMakeLists.txt adds no folder"; exit 1; }

broken=$(
  for folder in libsim/*/; do
    name=$(basename "$folder")
    echo "$order" | grep -qx "$name" || echo "$folder: not added by libsim/CMakeLists.txt"
  done
  includes libsim | grep -iE '#[[:space:]]*include[[:space:]]*[<"](.*/)?(cuda|nccl|cublas|mpi|libexec)' |
    sed 's/$/  <- never in libsim/' || true
  includes libsim | awk -v order="$order" '
    BEGIN { count = split(order, names, /[ \n]+/); for (i = 1; i <= count; ++i) rank[names[i]] = i }
    match($0, /"libsim\/[a-z_]+\//) {
      target = substr($0, RSTART + 8, RLENGTH - 9)
      split($0, path, "/")
      if (!(target in rank)) print $0 "  <- no such folder"
      else if (rank[target] > rank[path[2]]) print $0 "  <- " target " comes after " path[2]
    }'
  includes libexec | grep -E '"libsim/' |
    grep -vE '"libsim/(units|config|model|plan|hardware|trace)/' |
    sed 's/$/  <- not for libexec/' || true
)
if [ -n "$broken" ]; then
  echo "$broken"
  exit 1
fi
