#!/bin/sh
# Predicts all measured runs of this folder and prints how far the predictions are to be trusted, by
# regime, as the table of regimes.md. Builds the simulator first; runs from any folder.
set -eu
cd "$(dirname "$0")/../.."

results=build/validation
program=build/plain/apps/stagecraft/stagecraft
{
  ./experiments/packages.sh build scripts
  cmake --preset plain
  cmake --build build/plain --target stagecraft
} >&2
mkdir -p "$results"
by=$(/usr/bin/python3 experiments/validation/compared.py --keys)
for data in nanotron vtrain-single-node vtrain-multi-node narayanan-2021 published published-context published-fp8 bridge bridge-moe published-moe \
  megatron-ci llm-foundry torchtitan torchtitan-fp8 fms-fsdp1; do
  $program validate "experiments/validation/data/$data.csv" --base "experiments/validation/$data.yaml" \
    --by "$by" --json >"$results/$data.json"
done
$program validate experiments/validation/table5.csv --by "$by" --json >"$results/table5.json"
/usr/bin/python3 experiments/validation/table.py "$results"
/usr/bin/python3 experiments/validation/megatron_ci/errors.py "$results/megatron-ci.json"
/usr/bin/python3 experiments/validation/sharded/errors.py "$results/fms-fsdp1.json" "$results/torchtitan.json"
/usr/bin/python3 experiments/validation/low_precision.py "$results"
/usr/bin/python3 experiments/validation/deepseek_v3.py "$program"
# What the host holds. Its rows stay out of the residuals: no interval is said of such runs.
$program validate experiments/validation/data/published-offload.csv \
  --base experiments/validation/published-offload.yaml >&2
# Groups that were fitted, predicted with constants that were fitted without them.
/usr/bin/python3 experiments/validation/cross.py predict "$program" "$results"
# Writes configs/residuals.yaml, which the next build has in it.
/usr/bin/python3 experiments/validation/intervals.py "$results"
# Writes configs/compared.yaml, which warnings about systems quote and which says where measured runs end.
/usr/bin/python3 experiments/validation/compared.py "$results"
