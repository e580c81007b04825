#!/usr/bin/env bash
# Does a sweep survive Slurm? Starts a Slurm of one node on this machine, runs a sweep as an array of jobs
# (array.sbatch), kills it in the middle, submits it again, puts the parts together, and holds them against the sweep run
# by one process.
#
# usage: experiments/sweep/run.sh STAGECRAFT [SWEEP.yaml]   (as root)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
"$here/../packages.sh" build slurm
program=$(realpath "$1")
sweep=$(realpath "${2:-$here/../../configs/sweeps/layouts.yaml}")
# shellcheck source=../slurm/local_slurm.sh
source "$here/../slurm/local_slurm.sh"

"$program" sweep "$sweep" -o "$work/whole.h5"
cd "$work"
submit() {
  printf '\n$ sbatch --array=1-8 experiments/sweep/array.sbatch SWEEP.yaml parts\n'
  job=$(sbatch --parsable --array=1-8 --output="$work/task-%a.log" "$here/array.sbatch" "$sweep" parts "$program")
}
await() { while squeue -h -j "$job" 2>/dev/null | grep -q .; do sleep 0.2; done; }
count() { find parts -name "$1" | wc -l; }

submit
for _ in $(seq 1000); do
  compgen -G 'parts/*.journal' >/dev/null && break
  sleep 0.01
done
scancel --full --signal=KILL "$job"
await
printf 'killed: %d parts are whole, %d have begun\n' "$(count 'part-*.h5')" "$(count '*.journal')"
submit
await
printf 'submitted again: %d parts are whole, %d have begun\n' "$(count 'part-*.h5')" "$(count '*.journal')"

printf '\n$ stagecraft sweep --merge parts/part-*.h5 -o sweep.h5\n'
"$program" sweep --merge parts/part-*.h5 -o sweep.h5
cmp whole.h5 sweep.h5
echo 'the parts together are the sweep of one process, byte by byte'
