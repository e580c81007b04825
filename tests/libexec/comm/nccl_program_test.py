"""Runs `stagecraft-exec run --ranks nccl` on emulated devices as a user does, and breaks it as machines do.

usage: nccl_program_test.py STAGECRAFT_EXEC [MPIEXEC]

Exits 1 at the first thing that is wrong.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from launcher import CLEAN, Job, require

PROGRAM, MPIEXEC = sys.argv[1], "".join(sys.argv[2:])
SOURCE = pathlib.Path(__file__).resolve().parents[3]
PATIENCE = 10  # seconds from a failure to the end of all processes
RUN = f"""
model: {{layers: 2, hidden: 16, heads: 2, sequence: 8, vocabulary: 32}}
system: {SOURCE}/configs/systems/selene-a100.yaml
parallel: {{tensor: 2, pipeline: 2}}
batch: {{global: 2, micro: 1}}
schedule: 1f1b
"""


def start(size, *words, devices=1, **variables):
    """A job as torchrun starts it: `devices` are what each process sees."""
    words = [PROGRAM, "run", *words, "--ranks", "nccl"]
    return Job(size, words, STAGECRAFT_EMULATED_DEVICES=devices, **variables)


def finish(job):
    """Exit codes; outputs and errors of all, those of rank 0 first."""
    codes, outputs, errors = job.finish(60)
    return codes, "".join(outputs), "".join(errors)


def said(size, words, code, *texts, devices=1):
    codes, output, errors = finish(start(size, *words, devices=devices))
    shown = (words, codes, output, errors)
    require(codes[0] == code and 0 not in codes and output == "", "exit codes", *shown)
    for text in texts:
        require(errors.count(text) == 1, f"not said once: {text}", *shown)


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    config, trace = folder / "run.yaml", folder / "run.h5"
    config.write_text(RUN)

    options = [config, "--steps", 2, "--json"]
    threads = subprocess.run(
        [PROGRAM, "run", *map(str, options)], capture_output=True, text=True, check=True, timeout=60, env=CLEAN
    )
    wanted = json.loads(threads.stdout)
    for devices in (1, 4):
        codes, output, errors = finish(start(4, *options, "--trace", trace, devices=devices))
        require(codes == [0] * 4, "processes", codes, errors)
        require(errors.count("step 1 ") == 1, "each step is said once", errors)
        got = json.loads(output)
        for step, other in zip(got["steps"], wanted["steps"], strict=True):
            require(abs(step["loss"] - other["loss"]) < 1e-5, "loss", step, other)
        memory = [[(rank["rank"], rank["stage"], rank["peak_bytes"]) for rank in run["ranks"]] for run in (got, wanted)]
        require(memory[0] == memory[1], "memory", memory)
        require(trace.stat().st_size > 0, "trace")
    print("a run of four processes, with a device each and with four to choose from")

    checkpoint = folder / "checkpoint"
    codes, _, errors = finish(start(4, config, "--steps", 1, "--save", checkpoint))
    require(codes == [0] * 4, "saving", codes, errors)
    codes, output, errors = finish(start(4, config, "--steps", 1, "--json", "--resume", checkpoint))
    require(codes == [0] * 4, "resuming", codes, errors)
    require(abs(json.loads(output)["steps"][0]["loss"] - wanted["steps"][1]["loss"]) < 1e-5, "resumed", output, wanted)
    print("a run that goes on from a checkpoint")

    said(3, [config], 2, "--ranks nccl: found 3 processes; accepted: 4, the ranks of the plan")
    said(4, [config, "--clock", "virtual"], 2, "--clock: found 'virtual'; accepted")
    said(4, [config, "--set", "parallel.pipelines=2"], 2, "parallel.pipelines: found an unknown key")
    said(4, [config], 1, "--ranks nccl: ", devices=0)
    said(4, [config, "--memory-limit", "60 KB"], 3, "does not fit")
    print("what a user gets wrong is said once")

    shared = folder / "shared"
    codes, output, errors = finish(start(4, *options, "--rendezvous", shared, has_master=False))
    require(codes == [0] * 4, "a shared folder", codes, errors)
    require(not list(shared.iterdir()), "a file is left in the shared folder")
    (shared / "stagecraft-4.nccl").write_text("of another job")
    said(4, [*options, "--rendezvous", shared], 1, "File exists; remove it if no other job is starting there")
    print("a folder that all ranks share")

    # As experiments/gpu/run.sh starts it, without a launcher: FSDP2's plan on one device.
    one = [PROGRAM, "run", *options, "--set", "parallel.tensor=1", "--set", "parallel.pipeline=1", "--set", "sharding=fsdp2",
           "--set", "model.tied_embeddings=false"]
    nccl = ["--ranks", "nccl", "--rank", 0, "--world-size", 1, "--local-rank", 0, "--rendezvous", shared]
    environment = {**CLEAN, "STAGECRAFT_EMULATED_DEVICES": "1"}
    peaks = []
    for words in ([*one, *nccl], one):
        done = subprocess.run(list(map(str, words)), capture_output=True, text=True, timeout=60, env=environment)
        require(done.returncode == 0, "a job of one rank", words, done)
        peaks.append([rank["at_peak"] | {"workspace": 0} for rank in json.loads(done.stdout)["ranks"]])
    require(peaks[0] == peaks[1], "a job of one rank holds other bytes", peaks)
    print("FSDP2's plan as a job of one rank")

    if MPIEXEC:
        words = [MPIEXEC, "--oversubscribe", "-n", "4", PROGRAM, "run", *options, "--ranks", "nccl"]
        environment = {**os.environ, "STAGECRAFT_EMULATED_DEVICES": "4"}
        for more in ([], ["--rendezvous", "mpi"]):
            done = subprocess.run(
                [str(word) for word in [*words, *more]], capture_output=True, text=True, timeout=60, env=environment
            )
            require(done.returncode == 0 and len(json.loads(done.stdout)["ranks"]) == 4, "mpirun", more, done)
        print("mpirun's variables, and MPI itself")

    job = start(4, config, "--steps", 1000000)
    while "step 2 " not in job.processes[0].stderr.readline():
        require(job.processes[0].poll() is None, "the run ended by itself")
    os.kill(job.processes[2].pid, signal.SIGKILL)
    begin = time.monotonic()
    codes, output, errors = finish(job)
    require(codes[2] == -signal.SIGKILL and 0 not in codes, "exit codes", codes, errors)
    require(time.monotonic() - begin < PATIENCE, "took long")
    print(f"rank 2 is killed: all ended within {time.monotonic() - begin:.2f} s")
