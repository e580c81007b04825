#!/usr/bin/env bash
# Everything that needs a GPU, in less than nine minutes, on a machine that has CUDA, NCCL and Python
# with PyTorch, but none of this project's packages. Run experiments/gpu/pack.sh before, where they are.
#
# usage: experiments/gpu/run.sh [shards]
#   shards  the second part: first, middle and last stage of the eight rows of table 5, alone
#
# BUNDLE   what pack.sh made, or its archive          (default: build/gpu-bundle)
# OUT      where JSON and traces go                   (default: out/gpu)
# PEER     PyTorch's layer, a script that takes --preset, --modes and --out; left out where unset
# PYTHON   with PyTorch                               (default: python3)
#
# Each step has a limit of its own; what fails or runs out of time is said, and the rest goes on. The
# summary comes last. Exits 1 where a step failed.
set -uo pipefail
cd "$(dirname "$0")/../.."

export bundle
bundle=${BUNDLE:-build/gpu-bundle}
[ -d "$bundle" ] || [ ! -f "$bundle.tar.gz" ] || tar -xzf "$bundle.tar.gz" -C "$(dirname "$bundle")"
bundle=$(realpath "$bundle")
out=${OUT:-out/gpu}
python=${PYTHON:-python3}
mkdir -p "$out"
out=$(realpath "$out")
[ -x "$bundle/bin/stagecraft-exec" ] || { echo "run.sh: no programs in $bundle; experiments/gpu/pack.sh makes them" >&2 && exit 2; }

# CUDA's libraries may be a toolkit's, or those that PyTorch brings.
wheels=$("$python" -c 'import glob, site; print(":".join(p for s in site.getsitepackages() for p in glob.glob(s + "/nvidia/*/lib")))' 2>/dev/null)
export LD_LIBRARY_PATH="$bundle/lib:/usr/local/cuda/lib64${wheels:+:$wheels}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export PATH="$bundle/bin:/usr/local/cuda/bin:$PATH"

# All steps together; what is left of it is the most that a step gets.
deadline=$((SECONDS + 530))
failed=()
# step SECONDS NAME COMMAND...: its standard output goes to $out/NAME, the rest to $out/NAME.log.
step() {
  local limit=$1 name=$2 begin=$SECONDS left=$((deadline - SECONDS))
  shift 2
  rm -f "$out/$name"
  if [ "$left" -lt 5 ]; then
    printf '   -    %s  left out: no time\n' "$name"
    failed+=("$name")
  elif timeout -k 5 $((limit < left ? limit : left)) bash -c '"$@"' step "$@" >"$out/$name.partial" 2>"$out/$name.log"; then
    mv "$out/$name.partial" "$out/$name"
    printf '%4d s  %s\n' $((SECONDS - begin)) "$name"
  else
    printf '%4d s  %s  FAILED (%d): %s\n' $((SECONDS - begin)) "$name" $? "$(tail -n 1 "$out/$name.log")"
    mv "$out/$name.partial" "$out/$name.failed"
    failed+=("$name")
  fi
}

facts() {
  date -u +%Y-%m-%dT%H:%M:%SZ
  cat "$bundle/commit"
  nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm,power.limit --format=csv,noheader
  stagecraft-exec devices --json
}

first_part() {
  local model
  step 30 facts.txt facts
  for test in "$bundle"/bin/test_*_on_device; do
    step 120 "$(basename "$test").txt" "$test"
  done
  # In turns with its peer, so that both see the same clocks.
  local layer=(stagecraft-exec measure layer "$bundle/configs/paper/22b-present.yaml" --backend cuda --repeats 20 --json
    --algorithms fastest --set "system=$bundle/configs/systems/h200.yaml")
  # What the peer's compiler does: softmax and dropout in one kernel.
  local fused=("${layer[@]}" --set model.softmax_dropout=fused)
  step 30 layer-22b-before.json "${layer[@]}"
  step 30 layer-22b-fused-before.json "${fused[@]}"
  if [ -n "${PEER:-}" ]; then
    step 120 peer.txt "$python" "$PEER" --preset 22B-t8 --dtype float16 --modes graph-fused --attention unfused --no-gemm --no-check --budget 100 --out "$out/peer.json"
    step 30 layer-22b-after.json "${layer[@]}"
    step 30 layer-22b-fused-after.json "${fused[@]}"
  fi
  step 150 calibrate.txt stagecraft-exec calibrate --backend cuda --precision fp16 --algorithms fastest --like "$bundle/configs/systems/h200.yaml" -o "$out/calibrated.yaml"
  if [ -f "$out/calibrated.yaml" ]; then
    for model in 22b 175b 530b 1t; do
      step 40 "predicted-$model.json" stagecraft-exec measure layer "$bundle/configs/paper/$model-present.yaml" --backend cuda --repeats 10 --json \
        --algorithms fastest --set "system=$out/calibrated.yaml"
    done
  fi
  if command -v compute-sanitizer >/dev/null; then
    for tool in memcheck racecheck; do
      step 60 "sanitizer-$tool.txt" compute-sanitizer --tool "$tool" --error-exitcode 1 "$bundle/bin/test_cuda_kernels_on_device"
    done
  fi
}

# Warm-up, the first backward and a few microbatches more, of one rank of each stage.
shards() {
  local model case config stages stage rank sequences
  for model in 22b 175b 530b 1t; do
    for case in full present; do
      config="$bundle/configs/paper/$model-$case.yaml"
      read -r stages sequences < <(stagecraft simulate "$config" --json | "$python" experiments/gpu/shard_plan.py)
      step 20 "shard-$model-$case.predicted.json" stagecraft simulate "$config" --set "batch.global=$sequences" --json
      for stage in 0 $((stages / 2)) $((stages - 1)); do
        rank=$((stage * 8))
        step 60 "shard-$model-$case-$stage.json" stagecraft-exec run "$config" --ranks solo --rank "$rank" --backend cuda --steps 2 \
          --set "batch.global=$sequences" --trace "$out/shard-$model-$case-$stage.h5" --detail chunk --json
        [ "$stages" -gt 1 ] || break
      done
    done
  done
  step 30 reproduced.txt stagecraft reproduce table4 table5 --executed "$out"
}

export -f facts
trap 'echo; "$python" experiments/gpu/summary.py "$out"' EXIT
case "$*" in
  '') first_part ;;
  shards) shards ;;
  *) echo "run.sh: found '$*'; accepted: nothing, or shards" >&2 && exit 2 ;;
esac

[ ${#failed[@]} -eq 0 ]
