#!/bin/sh
# gpu_dry_run_test.sh STAGECRAFT STAGECRAFT-EXEC: every step of experiments/gpu/run.sh runs without a GPU. What
# it executes has the bytes that were predicted, and what it replays those that were recorded.
set -eu
source=$(cd "$(dirname "$0")/.." && pwd)
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
mkdir -p "$folder/bundle/bin" "$folder/bundle/share/stagecraft"
ln -s "$1" "$2" "$folder/bundle/bin"
printf '#!/bin/sh\necho "All tests passed"\n' >"$folder/bundle/bin/test_of_nothing_on_device"
chmod +x "$folder/bundle/bin/test_of_nothing_on_device"
ln -s "$source/configs" "$folder/bundle/share/stagecraft/configs"
echo none >"$folder/bundle/commit"
run() { BUNDLE=$folder/bundle OUT=$folder/out "$source/experiments/gpu/run.sh" --dry-run "$@"; }

run all >"$folder/said" 2>&1 || { cat "$folder/said" && exit 1; }
grep 'not as predicted' "$folder/said" && exit 1
[ "$(grep -c 'as predicted, to the byte' "$folder/said")" -eq 22 ]  # 1 stage of 22B and 3 of each other model, twice; FSDP2 twice
grep -q 'own, forward' "$folder/said"  # attention, out of a trace
[ "$(grep -c 'replayed equal' "$folder/said")" -eq 8 ]
[ -s "$folder/out.tar.gz" ]

run nonsense 2>"$folder/said" && exit 1
grep -q "found 'nonsense'; accepted: --dry-run, all" "$folder/said"
