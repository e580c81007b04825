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

work=$(mktemp -d)
daemons=()
stop() {
  kill "${daemons[@]}" 2>/dev/null || true
  wait || true
  rm -rf "$work"
}
trap stop EXIT

# No daemon for credentials: whoever runs this is root on the only node.
cat >"$work/slurm.conf" <<END
ClusterName=here
SlurmctldHost=$(hostname -s)
SlurmUser=root
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=pmix
SlurmctldPort=16817
SlurmdPort=16818
ReturnToService=2
SlurmdParameters=config_overrides
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
NodeName=$(hostname -s) CPUs=8 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
END
# Nothing here uses control groups; the plugin for version 2 would need systemd.
echo 'CgroupPlugin=cgroup/v1' >"$work/cgroup.conf"
mkdir "$work/state" "$work/spool"
export SLURM_CONF=$work/slurm.conf
slurmctld -D -f "$SLURM_CONF" >"$work/slurmctld.log" 2>&1 &
daemons+=($!)
slurmd -D -f "$SLURM_CONF" -N "$(hostname -s)" >"$work/slurmd.log" 2>&1 &
daemons+=($!)
for _ in $(seq 100); do
  sinfo -h -o %t 2>/dev/null | grep -qx idle && break
  sleep 0.2
done
sinfo -h -o %t | grep -qx idle || { tail -n 20 "$work"/*.log && exit 1; }

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
