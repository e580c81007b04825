#!/bin/sh
# gpu_dry_run_test.sh STAGECRAFT STAGECRAFT-EXEC: every step of experiments/gpu/run.sh runs without a GPU. What
# it executes has the bytes that were predicted, and what it replays those that were recorded. What a step had
# measured when it failed is kept, and what those before it measured is in the archive.
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
export ARCHIVE=$folder/kept/all.tar.gz
run() { BUNDLE=$folder/bundle RESULTS=$folder/results "$source/experiments/gpu/run.sh" --dry-run "$@"; }

run all >"$folder/said" 2>&1 || { cat "$folder/said" && exit 1; }
grep 'not as predicted' "$folder/said" && exit 1
[ "$(grep -c 'as predicted, to the byte' "$folder/said")" -eq 22 ]  # 1 stage of 22B and 3 of each other model, twice; FSDP2 twice
grep -q 'own, forward' "$folder/said"  # attention, out of a trace
[ "$(grep -c 'replayed equal' "$folder/said")" -eq 8 ]
grep -q 'flash attention, dropout 0.1, on' "$folder/said"
tar -tzf "$ARCHIVE" | grep -q 'results/layer-70b-own.json$'

printf '#!/bin/sh\ntar -tzf "$ARCHIVE" | grep "results/facts.txt$"\necho reason >&2\nexit 3\n' >"$folder/bundle/bin/test_of_nothing_on_device"
rm -r "$folder/results" "$ARCHIVE"
run tests >"$folder/said" && exit 1
grep -q '^test_of_nothing_on_device.txt: FAILED: exit status 3: reason' "$folder/said"
[ "$(cat "$folder/results/test_of_nothing_on_device.txt")" = results/facts.txt ]

run nonsense 2>"$folder/said" && exit 1
grep -q "found 'nonsense'; accepted: --dry-run, all" "$folder/said"
