#!/usr/bin/env bash
# Does a plan run under Slurm? Starts a Slurm of one node on this machine, runs a small plan with
# eight ranks with srun and with mpirun inside an allocation, kills a rank, and stops Slurm again.
#
# usage: experiments/slurm/run.sh STAGECRAFT-EXEC CONFIG   (as root; CONFIG: a plan of 8 ranks)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
"$here/../packages.sh" build mpi slurm
program=$(realpath "$1")
config=$(realpath "$2")
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# shellcheck source=local_slurm.sh
source "$here/local_slurm.sh"

show() {
  printf '\n$ %s\n' "$*"
  local begin=$SECONDS status=0
  "$@" || status=$?
  printf 'exit code %d after %d s\n' "$status" $((SECONDS - begin))
}
show srun -n 8 --mpi=pmix --kill-on-bad-exit=1 "$program" run "$config" --ranks mpi --steps 3
show salloc -Q -n 8 mpirun -n 8 "$program" run "$config" --ranks mpi --steps 3
show srun -n 8 --mpi=pmix --kill-on-bad-exit=1 "$program" run "$config" --ranks mpi --steps 1000 --memory-limit 18MiB

printf '\na rank is killed in the middle of a run:\n'
srun -n 8 --mpi=pmix --kill-on-bad-exit=1 "$program" run "$config" --ranks mpi --steps 1000000 2>"$work/errors" &
run=$!
until grep -q 'step 2 ' "$work/errors"; do sleep 0.1; done
for folder in /proc/[0-9]*; do
  if [ "$(realpath "$folder/exe" 2>/dev/null)" = "$program" ] &&
    tr '\0' '\n' <"$folder/environ" | grep -qx 'SLURM_PROCID=5'; then
    begin=$(date +%s%N)
    kill -KILL "${folder#/proc/}"
    break
  fi
done
status=0
wait $run || status=$?
milliseconds=$((($(date +%s%N) - begin) / 1000000))
grep -v '^step' "$work/errors" || true
printf 'exit code %d, %d ms after the kill\n' "$status" "$milliseconds"
