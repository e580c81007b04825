# Starts a Slurm of one node with eight processors on this machine, for the script that sources this file, and stops
# it again when that script ends. Sets `work`, a folder that is gone then too. As root.

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
