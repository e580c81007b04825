"""Starts jobs of several processes without MPI, as launchers do, and breaks them as machines do.

usage: session_test.py SESSION_PROCESS

Prints how long each failure took to end all processes. Exits 1 at the first thing that is wrong.
"""

import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

PROGRAM = sys.argv[1]
PATIENCE = 10  # seconds from a failure to the end of all processes
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


def start(words, environment=None):
    return subprocess.Popen(
        [PROGRAM, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**CLEAN, **(environment or {})},
    )


def flags(rank, size, port):
    return ["--rank", rank, "--world-size", size, "--master", f"127.0.0.1:{port}"]


def finish(job):
    """Exit codes, outputs and errors by rank."""
    results = [process.communicate(timeout=60) for process in job]
    return [process.returncode for process in job], [one[0] for one in results], [one[1] for one in results]


def check_agreement(name, job):
    codes, outputs, errors = finish(job)
    require(codes == [0] * len(job), f"{name}: exit codes", codes, errors)
    require(outputs[0] == "agreed\n" and "".join(errors) == "", f"{name}: output", outputs, errors)
    print(f"{name}: {len(job)} processes agree")


def break_one(name, words, size, harm, code, said, quiet=True):
    """`harm` is done to a job whose processes all wait; all must end in time, and say why."""
    port = free_port()
    job = [start([*words, *flags(rank, size, port)]) for rank in range(size)]
    for process in job if harm else []:
        require("here" in process.stdout.readline(), f"{name}: did not come")
    begin = time.monotonic()
    if harm:
        harm(job)
    codes, _, errors = finish(job)
    seconds = time.monotonic() - begin
    require(seconds < PATIENCE, f"{name}: took {seconds:.1f} s")
    ended = [one for one in codes if one >= 0]
    require(len(ended) >= size - 1 and all(one == code for one in ended), f"{name}: exit codes", codes, errors)
    text = "".join(errors)
    require(said in text, f"{name}: not said: {said}", errors)
    require(not quiet or text.count("last words") == 1, f"{name}: said more than once", errors)
    print(f"{name}: all ended within {seconds:.2f} s")


def kill(rank):
    return lambda job: os.kill(job[rank].pid, signal.SIGKILL)


def freeze(rank):
    """What a machine that vanishes looks like from the others; it comes back once they are gone."""

    def harm(job):
        os.kill(job[rank].pid, signal.SIGSTOP)
        for process in job[:rank] + job[rank + 1 :]:
            process.wait(timeout=60)
        os.kill(job[rank].pid, signal.SIGKILL)

    return harm


with tempfile.TemporaryDirectory() as folder:
    port = free_port()
    check_agreement("flags", [start(["agree", *flags(rank, 4, port)]) for rank in range(4)])

    # torchrun: its own store has the port. The first to come is not rank 0.
    with socket.socket() as store:
        store.bind(("127.0.0.1", 0))
        store.listen()
        torchrun = {"WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": str(store.getsockname()[1])}
        late = start(["agree"], {**torchrun, "RANK": "1"})
        time.sleep(0.3)
        check_agreement("torchrun's variables, a port that is taken", [start(["agree"], {**torchrun, "RANK": "0"}), late])

    slurm = {"SLURM_NTASKS": "4", "SLURM_JOB_ID": str(os.getpid()), "SLURM_JOB_NODELIST": "localhost"}
    check_agreement("Slurm's variables", [start(["agree"], {**slurm, "SLURM_PROCID": str(rank)}) for rank in range(4)])

    # A job that was killed has left its file behind; the next one is not led astray, and cleans up.
    meeting = pathlib.Path(folder) / "meeting"
    meeting.mkdir()
    (meeting / "stagecraft-4.rank0").write_text(f"{free_port()} 12345\n{socket.gethostname()}\n")
    words = ["agree", "--world-size", 4, "--rendezvous", meeting]
    guests = [start([*words, "--rank", rank]) for rank in (1, 2, 3)]
    time.sleep(0.5)
    check_agreement("a file in a folder", [start([*words, "--rank", 0]), *guests])
    require(list(meeting.iterdir()) == [], "files are left", list(meeting.iterdir()))

    break_one("rank 2 fails", ["fail", 2], 4, None, 7, "last words: rank 2, out of paper")
    break_one("rank 0 fails", ["fail", 0], 4, None, 7, "last words: rank 0, out of paper")
    break_one("rank 2 is killed", ["wait"], 4, kill(2), 7, "last words: rank 2 is gone: its connection has closed")
    break_one("rank 0 is killed", ["wait"], 4, kill(0), 7, "rank 0 is gone: its connection has closed", quiet=False)
    break_one("rank 1 leaves", ["early", 1], 3, None, 7, "rank 1 has left before the others")
    silence = ["wait", "--silence", 4]
    break_one("rank 1 stops", silence, 3, freeze(1), 7, "last words: rank 1 is gone: nothing was heard of it for 4 s")

    port = free_port()
    job = [start(["agree", *flags(rank, 4, port), "--meeting", 2]) for rank in (0, 1, 3)]
    codes, _, errors = finish(job)
    require(codes == [3, 3, 3], "one is missing: exit codes", codes, errors)
    require("rank 0 waited 2 s for 4 processes (the command line): 1 did not come: 2" in errors[0], errors)
    print("one is missing: all say so")

    port = free_port()
    first = start(["agree", *flags(0, 2, port), "--meeting", 3])
    other = start(["agree", *flags(1, 3, port), "--meeting", 3])
    _, _, errors = finish([first, other])
    require("rank 1 is one of 3 processes, rank 0 one of 2" in errors[1], "two sizes", errors)
    print("two sizes of one job: said")

    done = start(["agree", "--rank", 1])
    _, _, errors = finish([done])
    require("--world-size: found nothing, but --rank" in errors[0], "half a place", errors)
