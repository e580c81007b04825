"""Breaks jobs of emulated devices that NCCL connects, as machines do: all processes must end in time, say why, and
leave nothing behind.

usage: nccl_failure_test.py NCCL_FAILURES

Prints how long each failure took. Exits 1 at the first thing that is wrong.
"""

import pathlib
import re
import signal
import sys
import time

from launcher import Job, require

PROGRAM = sys.argv[1]
SIZE = 4
PATIENCE = 25  # seconds from the start to the end of all; nccl_failures waits 4 for a peer that does not come


def shared_files():
    return {path.name for path in pathlib.Path("/dev/shm").glob("*stagecraft*")}


def run(what, rank, said, code=7):
    """One rank goes wrong: `said` by one of them, which exits with `code`."""
    files = shared_files()
    job = Job(SIZE, [PROGRAM, what, rank])
    codes, _, errors = job.finish(PATIENCE)
    seconds = time.monotonic() - job.begin
    text = "".join(errors)
    shown = (f"{what}: rank {rank}", codes, errors)
    require(code in codes and (code == 0 or 0 not in codes), "exit codes", *shown)
    require(re.search(said, text), f"not said: {said}", *shown)
    require(shared_files() == files, "left", shared_files(), *shown)
    print(f"{what}, rank {rank}: all ended after {seconds:.2f} s", *text.splitlines()[:1], sep="\n  ")


run("nothing", 0, "^$", 0)
run("kill", 2, "^$", -signal.SIGKILL)
run("kill", 0, "^$", -signal.SIGKILL)
run("throw", 3, r"^the end: rank 3 \(stage 1\).*: the device is on fire\n$")
# Its group waits for it, and the other stage for that group: whoever comes first to the end of its patience says so.
STUCK = r"(tensor group of ranks 0, 1|(activations|gradients) from stage . to ., ranks . and .)"
run("stop", 1, f"the end: NCCL, {STUCK}: a (collective|message) has not ended within 4 s")
LATE = r"the end: .*NCCL: ncclCommInitRankConfig: other ranks did not come within 4 s \(rank \d of 4, rank 0 at 127"
# It exits with 1 before it meets the others, which torchrun would end for that.
run("absent", 2, "^$", 1)
run("late", 3, LATE)
run("disagree", 1, "rank [01] has nccl.* of .*, rank [01] has nccl.* of")
