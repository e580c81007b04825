"""Starts a program as so many processes, as torchrun does, and waits for all.

usage: nccl_job_test.py PROCESSES PROGRAM [ARGUMENT...]

Exits 1 unless all exit 0 in time; kills what is left.
"""

import os
import socket
import subprocess
import sys

PATIENCE = 110  # seconds
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_", "TORCHELASTIC", "OMPI_", "PMI", "SLURM_")

count, program = int(sys.argv[1]), sys.argv[2:]
with socket.socket() as one:
    one.bind(("127.0.0.1", 0))
    port = one.getsockname()[1]
clean = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
job = []
for rank in range(count):
    place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    job.append(subprocess.Popen(program, env={**clean, **{name: str(value) for name, value in place.items()}}))
try:
    codes = [process.wait(timeout=PATIENCE) for process in job]
except subprocess.TimeoutExpired:
    codes = ["not over"]
for process in job:
    process.kill()
print("exit codes", codes)
sys.exit(codes != [0] * count)
