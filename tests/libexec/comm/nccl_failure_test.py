"""Breaks jobs of emulated devices that NCCL connects, as machines do: all processes must end in time, say why, and
leave nothing behind.

usage: nccl_failure_test.py NCCL_FAILURES

Prints how long each failure took. Exits 1 at the first thing that is wrong.
"""

import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time

PROGRAM = sys.argv[1]
SIZE = 4
PATIENCE = 25  # seconds from the start to the end of all; nccl_failures waits 4 for a peer that does not come
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_", "TORCHELASTIC", "OMPI_", "PMI", "SLURM_")
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}


def require(condition, what, *shown):
    if not condition:
        print(what, *shown, sep="\n")
        sys.exit(1)


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def shared_files():
    return {path.name for path in pathlib.Path("/dev/shm").glob("*stagecraft*")}


def meetings(job):
    """Sockets at which processes of a job could still be met."""
    names = re.findall(r"@stagecraft-nccl-(\d+)-", pathlib.Path("/proc/net/unix").read_text())
    return [name for name in names if int(name) in {process.pid for process in job}]


def start(rank, port, words):
    place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": SIZE, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    environment = {**CLEAN, **{name: str(value) for name, value in place.items()}}
    return subprocess.Popen(
        [PROGRAM, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


def run(what, rank, said, codes=(7,)):
    """One rank goes wrong: `said` by the others, who exit with one of `codes`."""
    files = shared_files()
    port = free_port()
    begin = time.monotonic()
    job = [start(number, port, [what, rank]) for number in range(SIZE)]
    try:
        results = [process.communicate(timeout=60) for process in job]
    except subprocess.TimeoutExpired:
        for process in job:
            process.kill()
        require(False, f"{what}: rank {rank}: processes do not end", [process.communicate() for process in job])
    seconds = time.monotonic() - begin
    ended = [process.returncode for process in job]
    text = "".join(errors for _, errors in results)
    shown = (ended, [errors for _, errors in results])
    require(seconds < PATIENCE, f"{what}: rank {rank}: took {seconds:.1f} s", *shown)
    others = ended[:rank] + ended[rank + 1 :]
    require(all(code in codes for code in others), f"{what}: rank {rank}: exit codes", *shown)
    require(re.search(said, text), f"{what}: rank {rank}: not said: {said}", *shown)
    require(ended[rank] == -signal.SIGKILL if what == "kill" else codes == (0,) or ended[rank] > 0, what, *shown)
    require(shared_files() == files and not meetings(job), f"{what}: rank {rank}: left", shared_files(), meetings(job))
    print(f"{what}, rank {rank}: all ended after {seconds:.2f} s", *text.splitlines()[:1], sep="\n  ")


run("nothing", 0, "^$", codes=(0,))
run("kill", 2, "last words: rank 2 is gone: its connection has closed")
run("kill", 0, "rank 0 is gone: its connection has closed")
run("throw", 3, r"last words: rank 3 \(stage 1\).*: the device is on fire")
# Its group waits for it, and the other stage for that group: whoever comes first to the end of its patience says so.
STUCK = r"(tensor group of ranks 0, 1|(activations|gradients) from stage . to ., ranks . and .)"
run("stop", 1, f"last words: NCCL, {STUCK}: a (collective|message) has not ended within 4 s")
run("absent", 2, "rank 0 waited 4 s for 4 processes .*: 1 did not come: 2", codes=(3,))
run("late", 3, "last words: .*NCCL: ncclCommInitRankConfig: other ranks did not come within 4 s")
run("disagree", 1, "rank [01] has nccl.* of .*, rank [01] has nccl.* of")
