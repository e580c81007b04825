#!/usr/bin/env bash
# Everything that needs a GPU, on a machine that has CUDA, NCCL and Python with PyTorch and transformers, but none of
# this project's packages. Run experiments/gpu/pack.sh first, on a machine that has them.
#
# usage: experiments/gpu/run.sh [--dry-run] [PART...]     (default: all)
#   all           what has an order of value: tests snapshots measurements shards fp8
#   tests         the kernels, whole models and NCCL against the CPU, at once
#   snapshots     what PyTorch's allocator does with a small model, for `stagecraft allocator`
#   measurements  the layer beside PyTorch's, calibrate, and what it predicts; wants the GPU for itself
#   shards        first, middle and last stage of the eight rows of table 5, alone; and FSDP2's plan, of a rank of many
#                 alone, and of a job of one rank over NCCL
#   fp8           the products of a 70B layer in bf16 and FP8 beside PyTorch's, and the layer with both attentions
#   sanitizers    the kernels' tests under compute-sanitizer; not part of all
#   --dry-run     every step with small shapes on the CPU, on a machine without a GPU. What only a GPU can do is taken
#                 from results: the recordings of PyTorch's allocator, and the file that calibrate wrote
#
# BUNDLE   what pack.sh made, or its archive          (default: build/gpu-bundle)
# RESULTS  the folder that JSON and traces go to      (default: out/gpu)
# ARCHIVE  all of RESULTS in one file                 (default: RESULTS.tar.gz)
# LIMIT    seconds for all parts together             (default: 560)
# PEER     PyTorch's layer, a script that takes --preset, --modes and --out; skipped if unset
# PYTHON   with PyTorch                               (default: python3)
#
# Each step has a time limit of its own, and at most what is left of LIMIT. Steps that fail or run out of time are
# reported, and the others continue. Each writes its results when it ends, and the archive is written anew after each, so
# that a run that is killed keeps them. The summary comes last. Exits with 1 if a step failed.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit

dry=
[ "${1:-}" != --dry-run ] || { dry=yes && shift; }
python=${PYTHON:-python3}
export bundle
bundle=${BUNDLE:-build/gpu-bundle}
# An archive that is newer than what was unpacked is unpacked anew.
if [ -f "$bundle.tar.xz" ] && [ ! "$bundle/commit" -nt "$bundle.tar.xz" ]; then
  rm -rf "$bundle"
  "$python" -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' "$bundle.tar.xz" "$(dirname "$bundle")"
  touch "$bundle/commit"
fi
bundle=$(realpath "$bundle")
configs=$bundle/share/stagecraft/configs
results=${RESULTS:-out/gpu}
mkdir -p "$results" "$(dirname "${ARCHIVE:-$results}")"
archive=$(realpath -m "${ARCHIVE:-$results.tar.gz}")
results=$(realpath "$results")
[ -x "$bundle/bin/stagecraft-exec" ] || { echo "run.sh: no programs in $bundle; experiments/gpu/pack.sh makes them" >&2 && exit 2; }

# Options of the executor: the device, how it chooses products, and the shapes.
on_device=(--backend cuda) fastest=(--algorithms fastest) shapes=()
if [ -n "$dry" ]; then
  on_device=(--backend cpu) fastest=()
  # Each model keeps its layers, and a head for each rank of a tensor group.
  shapes=(--set model.hidden=128 --set model.heads=16 --set model.sequence=32 --set model.vocabulary=256)
  nvidia-smi() { echo 'no GPU, dry run'; }
  compute-sanitizer() { "${@: -1}" && echo 'ERROR SUMMARY: none, dry run'; }
  export -f nvidia-smi compute-sanitizer
fi

# CUDA's libraries may be a toolkit's, or those that PyTorch brings; its own programs keep theirs.
wheels=$("$python" -c 'import glob, site; print(":".join(p for s in site.getsitepackages() for p in glob.glob(s + "/nvidia/*/lib")))' 2>/dev/null)
export libraries="$bundle/lib:/usr/local/cuda/lib64${wheels:+:$wheels}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
export PATH="/usr/local/cuda/bin:$PATH"
# ours PROGRAM ARGUMENTS...: a program of the bundle, with the libraries that it brings.
ours() { LD_LIBRARY_PATH=$libraries "$bundle/bin/$1" "${@:2}"; }
export -f ours
devices=$(ours stagecraft-exec devices 2>&1) || { printf 'run.sh: the programs do not start here:\n%s\n' "$devices" >&2 && exit 2; }

# The archive is whole at any instant. A file that another step writes meanwhile may differ from what tar began to read (1).
save() {
  {
    flock 9
    tar -czf "$archive.partial" -C "$(dirname "$results")" "$(basename "$results")" 2>/dev/null
    [ $? -le 1 ] && mv "$archive.partial" "$archive"
  } 9<"$results"
}

# A dry run may be on a machine that does much else.
patience=${dry:+10}
deadline=$((SECONDS + ${LIMIT:-560} * ${patience:-1}))
reserve=0  # of it, for parts to come
# step SECONDS NAME COMMAND...: its standard output goes to $results/NAME, the rest to $results/NAME.log. If it fails,
# NAME.failed has the reason. What it wrote stays in NAME if each line counts for itself, else in NAME.partial.
step() {
  local limit=$1 name=$2 begin=$SECONDS left=$((deadline - reserve - SECONDS)) status reason
  shift 2
  rm -f "$results/$name" "$results/$name.failed"
  if [ "$left" -lt 5 ]; then
    echo 'left out: no time' >"$results/$name.failed"
    printf '   -    %s  left out: no time\n' "$name"
    return
  fi
  ((limit *= ${patience:-1}))
  ((limit <= left)) || limit=$left
  timeout -k 5 "$limit" bash -c '"$@"' step "$@" >"$results/$name.partial" 2>"$results/$name.log"
  status=$?
  [[ -z $dry || $status -ne 77 ]] || status=0  # a test without its device
  [[ $status -ne 0 && $name != *.jsonl && $name != *.txt ]] || mv "$results/$name.partial" "$results/$name"
  if [ "$status" -eq 0 ]; then
    printf '%4d s  %s\n' $((SECONDS - begin)) "$name"
  else
    case $status in
      124 | 137) reason="cut off after $limit s" ;;
      *) reason="exit status $status" ;;
    esac
    echo "$reason: $(tail -n 1 "$results/$name.log")" >"$results/$name.failed"
    printf '%4d s  %s  FAILED: %s\n' $((SECONDS - begin)) "$name" "$(cat "$results/$name.failed")"
  fi
  save
}

facts() {
  date -u +%Y-%m-%dT%H:%M:%SZ
  cat "$bundle/commit"
  nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm,power.limit --format=csv,noheader
  ours stagecraft-exec devices --json
}

tests() {
  local test
  for test in "$bundle"/bin/test_*_on_device; do
    test=$(basename "$test")
    step 200 "$test.txt" ours "$test" &
  done
  wait
}

# Kernels become many times slower.
sanitizers() {
  local tool
  for tool in memcheck racecheck; do
    step 260 "sanitizer-$tool.txt" ours_in_sanitizer "$tool" &
  done
  wait
}
ours_in_sanitizer() {
  LD_LIBRARY_PATH=$libraries compute-sanitizer --tool "$1" --error-exitcode 1 "$bundle/bin/test_cuda_kernels_on_device"
}

# The first says how little some of the others may have; all together need more memory than a GPU has. `all` records what
# is not kept yet: a recording is PyTorch's, whatever the commit.
snapshots() {
  local some name wanted pids
  for some in uneven 'uneven_tight uneven_collected steady' 'uneven_expandable uneven_unsplit uneven_rounded recomputed' \
    'sharded sharded_recomputed'; do
    wanted=() pids=()
    for name in $some; do
      if [ -f "experiments/gpu/results/allocator/$name.pickle.gz" ]; then
        [ -z "$new_only" ] || continue
      elif [ -n "$dry" ]; then
        echo "   -    snapshot-$name.txt  left out: no recording is kept"
        continue
      fi
      wanted+=("$name")
    done
    for name in "${wanted[@]}"; do
      step 60 "snapshot-$name.txt" recorded "$name" &
      pids+=($!)
    done
    [ ${#pids[@]} -eq 0 ] || wait "${pids[@]}"
    for name in "${wanted[@]}"; do step 20 "replay-$name.json" replayed "$name"; done
  done
}
recorded() {
  if [ -n "$dry" ]; then
    "$python" experiments/gpu/keep_snapshots.py "$results" "$1"
  else
    "$python" experiments/gpu/snapshots.py "$1" "$results"
  fi
}
replayed() {
  local capacity settings status=0
  # What the case was limited to is a fraction of the device, without which PyTorch collects no garbage either.
  read -r capacity settings < <("$python" -c 'if True:
    import json, sys
    case = json.load(open(sys.argv[1]))
    share = case["capacity"] / case["total"]
    print(case["total"], ",".join(filter(None, [case["settings"], f"per_process_memory_fraction:{share}" if share < 1 else ""])))' "$results/$1.json")
  ours stagecraft allocator "$results/$1.pickle.gz" --capacity "$capacity B" --settings "$settings" --json || status=$?
  [ "$status" -eq 0 ] || [ "$status" -eq 3 ]  # 3: it runs out of memory, as the run may have
}

measurements() {
  local model like=$configs/systems/h200.yaml
  [[ "$(nvidia-smi --query-gpu=name --format=csv,noheader)" == *H200* ]] || like=$configs/systems/dgx-h100.yaml
  # In turns with its peer, so that both see the same clocks.
  local layer=(ours stagecraft-exec measure layer "$configs/paper/22b-present.yaml" "${on_device[@]}" "${fastest[@]}" --repeats 20 --json
    --set "system=$like" "${shapes[@]}")
  # What the peer's compiler does: softmax and dropout in one kernel.
  local fused=("${layer[@]}" --set model.softmax_dropout=fused)
  step 30 layer-22b-before.json "${layer[@]}"
  step 30 layer-22b-fused-before.json "${fused[@]}"
  if [ -n "${PEER:-}" ] && [ -z "$dry" ]; then
    step 90 peer.txt "$python" "$PEER" --preset 22B-t8 --dtype float16 --modes graph-fused --attention unfused --no-gemm --no-check --budget 80 --out "$results/peer.json"
    step 30 layer-22b-after.json "${layer[@]}"
    step 30 layer-22b-fused-after.json "${fused[@]}"
  fi
  if [ -n "$dry" ]; then
    step 10 calibrate.txt cp experiments/gpu/results/h200/calibrated.yaml "$results"
  else
    rm -f "$results/calibrated.yaml"
    step 180 calibrate.txt ours stagecraft-exec calibrate "${on_device[@]}" "${fastest[@]}" --precision fp16 --like "$like" -o "$results/calibrated.yaml"
    # If it was cut off: what it had measured.
    [ ! -f "$results/calibrated.yaml.so_far" ] || mv "$results/calibrated.yaml.so_far" "$results/calibrated.yaml"
  fi
  if [ -f "$results/calibrated.yaml" ]; then
    for model in 22b 175b 530b 1t; do
      step 30 "predicted-$model.json" ours stagecraft-exec measure layer "$configs/paper/$model-present.yaml" "${on_device[@]}" "${fastest[@]}" \
        --repeats 10 --json --set "system=$results/calibrated.yaml" "${shapes[@]}"
    done
  fi
  # Flash attention. With dropout it is always our own kernel's.
  local dropout chosen=(--attention cudnn)
  [ -z "$dry" ] || chosen=()
  for dropout in 0 0.1; do
    step 30 "layer-22b-flash-$dropout.json" "${layer[@]}" "${chosen[@]}" --set model.attention=flash --set "model.dropout=$dropout"
    if [ -n "${PEER:-}" ] && [ -z "$dry" ]; then
      step 40 "peer-flash-$dropout.txt" "$python" "$PEER" --preset 22B-t8 --dtype float16 --modes graph-fused --attention flash --recompute none \
        --dropout "$dropout" --no-sp --no-gemm --no-check --budget 35 --out "$results/peer-flash-$dropout.json"
    fi
  done
}

# Attention by cuDNN beside PyTorch's first, then products, and our own attention, which was measured before, last.
fp8() {
  local small=()
  [ -z "$dry" ] || small=(--cpu)
  [ -n "$dry" ] || layer_70b cudnn
  in_torch attention "${small[@]}"
  if [ -n "$dry" ] && [ ! -x "$bundle/bin/fp8_products" ]; then
    echo '   -    fp8-products.jsonl  left out: the bundle was built without CUDA'
  else
    step 60 fp8-products.jsonl ours fp8_products "${small[@]}"
  fi
  in_torch 'product copy layer' "${small[@]}"
  layer_70b own
}
# in_torch KINDS [--cpu]: PyTorch's side, in a file of its own.
in_torch() {
  local name=fp8-torch-${1// /-}.jsonl kinds
  read -ra kinds <<<"$1"
  if "$python" -c 'import torch' 2>/dev/null; then
    step 90 "$name" "$python" experiments/gpu/fp8_torch.py "${@:2}" "${kinds[@]}"
  else
    echo "   -    $name  left out: no PyTorch"
  fi
}
# layer_70b ATTENTION: attention alone, and the layer.
layer_70b() {
  local config=$configs/examples/llama2-70b-64-h100.yaml
  local how=("${on_device[@]}" --set "model=$configs/models/llama3-70b.yaml" --set "system=$configs/systems/h200.yaml" "${shapes[@]}")
  [ -n "$dry" ] || how+=(--attention "$1")
  step 40 "attention-$1.csv" attention_alone "$1" "$config" "${how[@]}"
  step 40 "layer-70b-$1.json" ours stagecraft-exec measure layer "$config" "${how[@]}" "${fastest[@]}" --repeats 10 --json
}

# Of a layer whose ops run one by one, the rows of attention.
attention_alone() {
  ours stagecraft-exec run "${@:2}" --ranks solo --rank 0 --set model.layers=1 --set parallel.pipeline=1 --set parallel.data=1 \
    --set batch.global=2 --steps 3 --trace "$results/attention-$1.h5" --detail op >&2 &&
    ours stagecraft export "$results/attention-$1.h5" --format csv -o "$results/attention-$1.all.csv" >&2 &&
    grep -E '^rank|attention' "$results/attention-$1.all.csv" && rm "$results/attention-$1.all.csv" "$results/attention-$1.h5"
}

# What is measured least comes first. Three stages make an iteration of a row of table 5.
shards() {
  stages_of 1t present
  units
  stages_of 175b present
  stages_of 530b present
  stages_of 22b full
  stages_of 22b present
  stages_of 175b full
  stages_of 530b full
  stages_of 1t full
  [ -n "$dry" ] || step 30 reproduced.txt ours stagecraft reproduce table4 table5 --executed "$results"
}
# Warm-up, the first backward and a few microbatches more, of one rank of the first stage, one from the middle, and the last.
stages_of() {
  local name=shard-$1-$2 config=$configs/paper/$1-$2.yaml stages ranks stage sequences
  read -r stages ranks sequences < <(ours stagecraft simulate "$config" "${shapes[@]}" --json | "$python" experiments/gpu/shard_plan.py)
  step 20 "$name.predicted.json" ours stagecraft simulate "$config" "${shapes[@]}" --set "batch.global=$sequences" --json
  for stage in 0 $((stages / 2)) $((stages - 1)); do
    step 60 "$name-$stage.json" ours stagecraft-exec run "$config" --ranks solo --rank $((stage * ranks)) "${on_device[@]}" --steps 2 \
      "${shapes[@]}" --set "batch.global=$sequences" --trace "$results/$name-$stage.h5" --detail chunk --json
    [ "$stages" -gt 1 ] || break
  done
}
# FSDP2's plan: of a rank among 64 alone, and four layers as a job of one rank over NCCL.
units() {
  local run=("$configs/examples/llama3-8b-fp8.yaml" --set low_precision=none --set "memory={}"
    --set sharding=fsdp2 --set "system=$configs/systems/h200.yaml" "${shapes[@]}")
  local of_64=(--set parallel.data=64 --set batch.global=128) alone=(--set parallel.data=1 --set batch.global=2 --set model.layers=4)
  local over_nccl=(--ranks nccl --rank 0 --world-size 1 --local-rank 0 --rendezvous "$results/rendezvous")
  if [ -n "$dry" ]; then
    run+=(--set model.ffn_hidden=256 --set model.kv_heads=8) over_nccl=(--ranks threads)
  fi
  step 20 shard-fsdp2.predicted.json ours stagecraft simulate "${run[@]}" "${of_64[@]}" --json
  step 60 shard-fsdp2-0.json ours stagecraft-exec run "${run[@]}" "${of_64[@]}" --ranks solo --rank 0 "${on_device[@]}" --steps 2 --json
  step 20 shard-fsdp2-alone.predicted.json ours stagecraft simulate "${run[@]}" "${alone[@]}" --json
  step 60 shard-fsdp2-alone-0.json ours stagecraft-exec run "${run[@]}" "${alone[@]}" "${over_nccl[@]}" "${on_device[@]}" --steps 3 --json
}

export results python dry
export -f facts ours_in_sanitizer recorded replayed attention_alone
[ $# -gt 0 ] || set -- all
new_only=
if [ "$*" = all ]; then
  set -- tests snapshots measurements shards fp8
  [ -n "$dry" ] || new_only=yes
fi
for part in "$@"; do
  case "$part" in
    tests | sanitizers | snapshots | measurements | shards | fp8) ;;
    *) echo "run.sh: found '$part'; accepted: --dry-run, all, tests, sanitizers, snapshots, measurements, shards, fp8" >&2 && exit 2 ;;
  esac
done
trap 'echo; "$python" experiments/gpu/summary.py "$results"; save' EXIT
step 30 facts.txt facts
# The last part would otherwise have what the stages leave. Neither tests nor recordings want the GPU for themselves.
for part in "$@"; do
  reserve=0
  [[ " $* " != *" fp8 "* || "$part" == fp8 ]] || reserve=180
  if [[ "$part" == tests && " $* " == *" snapshots "* ]]; then
    tests &
  else
    "$part"
    wait
  fi
done

[ -z "$(find "$results" -name '*.failed' -print -quit)" ]
