"""Runs `stagecraft-exec run --ranks mpi` as a user does, and breaks it as machines do.

usage: mpi_program_test.py STAGECRAFT_EXEC MPIEXEC

Prints how long each failure took to end all processes. Exits 1 at the first thing that is wrong.
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time

PROGRAM, MPIEXEC = sys.argv[1], sys.argv[2]
SOURCE = pathlib.Path(__file__).resolve().parents[3]
PATIENCE = 10  # seconds from a failure to the end of all processes
RUN = f"""
model: {{layers: 4, hidden: 64, heads: 4, sequence: 32, vocabulary: 256}}
system: {SOURCE}/configs/systems/selene-a100.yaml
parallel: {{tensor: 2, pipeline: 2}}
batch: {{global: 4, micro: 1}}
schedule: 1f1b
"""


def require(condition, what, *shown):
    if not condition:
        print(what, *shown, sep="\n")
        sys.exit(1)


def command(processes, *arguments):
    return [MPIEXEC, "--oversubscribe", "-n", str(processes), PROGRAM, "run", *map(str, arguments), "--ranks", "mpi"]


def run(*words):
    begin = time.monotonic()
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout, done.stderr, time.monotonic() - begin


def processes_of(mark):
    """Process ids by rank of all programs that were started with `mark` in their environment."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            environment = (folder / "environ").read_bytes().split(b"\0")
            is_program = os.path.samefile(folder / "exe", PROGRAM)
        except OSError:
            continue
        if is_program and f"STAGECRAFT_TEST={mark}".encode() in environment:
            values = dict(word.split(b"=", 1) for word in environment if b"=" in word)
            found[int(values[b"OMPI_COMM_WORLD_RANK"])] = int(folder.name)
    return found


def end_one(config, rank, how, named):
    """Ends one rank in the middle of a run; mpirun must say which and how, and all must go."""
    mark = f"{os.getpid()}-{how}"
    long = ["--set", "model.hidden=128", "--set", "model.sequence=128", "--set", "batch.global=8"]
    with subprocess.Popen(
        command(4, config, "--steps", 1000000, *long),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "STAGECRAFT_TEST": mark},
    ) as mpirun:
        while "step 1 " not in mpirun.stderr.readline():
            require(mpirun.poll() is None, "the run ended by itself")
        time.sleep(0.03)  # into the next iteration
        os.kill(processes_of(mark)[rank], how)
        begin = time.monotonic()
        output, errors = mpirun.communicate(timeout=60)
        seconds = time.monotonic() - begin
    require(mpirun.returncode not in (0, 2, 3), f"{how.name}: exit code {mpirun.returncode}")
    require(f"rank {rank}" in errors and named in errors, f"{how.name}: not named", errors)
    require(output == "", f"{how.name}: there was output", output)
    # The others wait for the one that died, or for one that does: each says for which op and rank.
    waited = re.findall(r"rank \d: ended while it waited for (.+)", errors)
    ops = [line for line in waited if re.search(rf"\w\.\w.* ranks? .*\b{rank}\b", line)]
    require(ops, f"{how.name}: nobody waited for an op of rank {rank}", errors)
    print(f"waited for: {ops[0]}")
    require(seconds < PATIENCE, f"{how.name}: took {seconds:.1f} s")
    while processes_of(mark):
        require(time.monotonic() - begin < PATIENCE, "processes are left", processes_of(mark))
        time.sleep(0.05)
    print(f"rank {rank} ended by {how.name}: all ended within {time.monotonic() - begin:.2f} s")


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    config, trace = folder / "run.yaml", folder / "run.h5"
    config.write_text(RUN)

    code, output, errors, _ = run(*command(4, config, "--steps", 2, "--gemm", "plain", "--json", "--trace", trace))
    require(code == 0, "processes", errors)
    processes = json.loads(output)
    require(errors.count("step 1 ") == 1, "each step is said once", errors)
    code, output, errors, _ = run(PROGRAM, "run", config, "--steps", "2", "--gemm", "plain", "--json")
    threads = json.loads(output)
    for step in processes["steps"] + threads["steps"]:
        del step["seconds"]
    require(processes == threads, "processes and threads say different things", processes, threads)
    require(trace.stat().st_size > 0 and len(processes["ranks"]) == 4, "trace")

    code, output, errors, _ = run(*command(3, config))
    require(code == 2 and output == "", "three processes", code, output, errors)
    require(errors.count("--ranks mpi: found 3 processes; accepted: 4, the ranks of the plan") == 1, errors)

    code, output, errors, _ = run(PROGRAM, "run", config, "--ranks=mpi")
    require(code == 2 and "found 1 process; accepted: 4" in errors, "one process", code, errors)

    code, output, errors, _ = run(*command(4, config, "--clock", "virtual"))
    require(code == 2 and errors.count("--clock: found 'virtual'; accepted") == 1, "virtual clock", code, errors)

    code, output, errors, _ = run(*command(4, config, "--set", "parallel.pipelines=2"))
    require(code == 2 and errors.count("parallel.pipelines: found an unknown key") == 1, "a wrong key is named once", code, errors)

    # The first stage holds more microbatches than the last: between the two, its ranks do not fit.
    peaks = [max(rank["peak_bytes"] for rank in threads["ranks"] if rank["stage"] == stage) for stage in (0, 1)]
    require(peaks[0] != peaks[1], "stages alike", peaks)
    full = peaks.index(max(peaks))
    limit = f"{sum(peaks) // 2} B"
    lost = folder / "lost.h5"
    code, output, errors, seconds = run(*command(4, config, "--memory-limit", limit, "--trace", lost))
    require(not list(folder.glob("lost.h5*")), "a run that failed has left a trace")
    require(code == 3 and output == "", "memory limit", code, output, errors)
    require(errors.count("does not fit") == 1 and f"(stage {full})" in errors, "memory limit", errors)
    require(f"(stage {1 - full})" not in errors, "only one stage does not fit", errors)
    print(f"memory limit on stage {full}: all ended within {seconds:.2f} s of the start")

    code, output, errors, seconds = run(*command(4, config, "--resume", folder / "nothing"))
    require(code == 2 and errors.count("found none; accepted") == 1, "no checkpoint", code, errors)
    print(f"no checkpoint: all ended within {seconds:.2f} s of the start")

    end_one(config, 2, signal.SIGKILL, "signal 9")
    end_one(config, 0, signal.SIGABRT, "signal 6")
