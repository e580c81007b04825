"""Computes how much of an iteration has to run until each stage is at its fullest. Reads `stagecraft simulate --json`
from standard input, prints the number of stages, the ranks of each, and a global batch.

A stage is at its fullest after its warm-up, which takes as many microbatches as there are stages; interleaved
schedules take them in groups of that many. A few more show its steady state.
"""

import json
import sys

config = json.load(sys.stdin)["config"]
parallel, batch = config["parallel"], config["batch"]
stages = parallel["pipeline"]
microbatches = 2 * stages if parallel.get("interleave", 1) > 1 else stages + 4
print(stages, parallel.get("tensor", 1) * parallel.get("data", 1), microbatches * batch["micro"] * parallel.get("data", 1))
