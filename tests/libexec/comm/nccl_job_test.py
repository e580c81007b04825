"""Starts a program as so many processes, as torchrun does, and waits for all.

usage: nccl_job_test.py PROCESSES PROGRAM [ARGUMENT...]

Exits 1 unless all exit 0 in time; kills what is left.
"""

import sys

from launcher import Job, require

count, program = int(sys.argv[1]), sys.argv[2:]
codes, outputs, errors = Job(count, program).finish(110)
print("exit codes", codes, *outputs, *errors)
require(codes == [0] * count, "not all exit 0")
