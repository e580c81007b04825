"""Kills a run that saves after every iteration, at random moments, and resumes after each.

usage: kill_while_saving.py STAGECRAFT_EXEC SYSTEM [times]

Exits 1 where, after a kill, the checkpoint does not load or is older than one that loaded before.
"""

import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

RUN = """model: {{layers: 2, hidden: 64, heads: 4, sequence: 16, vocabulary: 256, precision: fp32}}
system: {system}
parallel: {{tensor: 2, pipeline: 2}}
batch: {{global: 2, micro: 1}}
"""


def first_step(program, config, folder):
    """Resumes for one iteration; the step that it starts with."""
    result = subprocess.run([program, "run", config, "--resume", folder], capture_output=True, text=True)
    step = re.search(r"^step (\d+)", result.stderr, re.MULTILINE)
    if result.returncode != 0 or not step:
        sys.exit(f"exit code {result.returncode}: {result.stderr}")
    return int(step[1])


def main(program, system, times):
    chance = random.Random(20251121)
    with tempfile.TemporaryDirectory() as name:
        config = pathlib.Path(name, "run.yaml")
        config.write_text(RUN.format(system=system))
        folder = pathlib.Path(name, "checkpoint")
        begin = time.monotonic()
        subprocess.run([program, "run", config, "--save", folder], capture_output=True, check=True)
        whole = time.monotonic() - begin  # of a start, an iteration and a save
        saved = 1
        for _ in range(times):
            command = [program, "run", config, "--save", folder, "--save-every", "1", "--steps", "100000",
                       "--resume", folder]
            with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
                time.sleep(chance.uniform(0.2, 2.5) * whole)
                process.kill()
            step = first_step(program, config, folder)
            if step < saved:
                sys.exit(f"step {saved} was saved, but step {step} came back")
            saved = step
    print(f"{times} kills, {saved} steps saved")
    if saved == 1:
        sys.exit("no run that was killed ever saved anything")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 100)
