#!/bin/sh
# Builds stagecraft and reproduces the paper: prints tables 2, 4 and 5 beside its values, executes
# small twins of its 22B and 175B runs beside their predictions, and ends with one table of both: what was
# published, predicted and executed. Leaves the data of every table and figure, a trace of each of table 5's
# eight rows and those of the twins in build/reproduction/. The simulator is built first and prints its tables while there is no executor yet. Runs from any folder;
# installs missing Debian packages by itself.
set -eu
cd "$(dirname "$0")/.."

results=build/reproduction
program=build/plain/apps/stagecraft/stagecraft

# Standard output is for the tables.
{
  ./experiments/packages.sh build scripts
  cmake --preset plain
  cmake --build build/plain --target stagecraft
} >&2
$program reproduce table2 table4 table5
echo

cmake --build build/plain --target stagecraft-exec >&2
mkdir -p "$results/traces" "$results/executed"
$program reproduce all --output "$results" >"$results/all.txt"
for run in 22b-full 22b-present 175b-full 175b-present 530b-full 530b-present 1t-full 1t-present; do
  $program simulate "configs/paper/$run.yaml" --trace "$results/traces/$run.h5" >/dev/null
done
status=0
/usr/bin/python3 experiments/twins/run.py "$program" build/plain/apps/stagecraft-exec/stagecraft-exec configs \
  "$results/executed" >"$results/glance.txt" || status=$?
$program reproduce table4 table5 --executed "$results/executed" >"$results/executed.txt"
echo "All tables and figures: $PWD/$results; traces of table 5's rows: $PWD/$results/traces"
echo "The executed twins beside tables 4 and 5: $PWD/$results/executed.txt; their traces: $PWD/$results/executed"
echo
cat "$results/glance.txt"
exit "$status"
