#!/bin/sh
# Holds that objects compiled for a newer processor share no code with the rest of the program.
#
# usage: no_shared_code.sh NAMESPACE OBJECT...
#
# A weak function in one of them could be the copy that the linker keeps for all, and an older
# processor would meet instructions that it does not have.
set -eu
namespace=$1
shift
[ $# -gt 0 ]

# Of defined symbols: weak functions and objects (W, V, u), and functions of another namespace (T).
shared=$(nm --defined-only "$@" | awk -v namespace="$namespace" '
  NF == 3 && $3 !~ /^DW\.ref\./ && ($2 ~ /[WVu]/ || ($2 == "T" && index($3, namespace) == 0))')
[ -z "$shared" ] || { echo "$shared" && exit 1; }
own=$(nm --defined-only "$@" | grep -c " T .*$namespace")
echo "$own functions, all of $namespace"
[ "$own" -gt 0 ]
