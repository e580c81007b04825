"""Kills a run that saves after every iteration, at random moments, and resumes after each.

usage: kill_while_saving.py STAGECRAFT_EXEC SYSTEM [times]

Exits 1 where, after a kill, there is a checkpoint that does not load, or the last one that was named is gone.
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
        saved = 0
        for _ in range(times):
            command = [program, "run", config, "--save", folder, "--save-every", "1", "--steps", "100000"]
            if (folder / "latest").exists():
                command += ["--resume", folder]
            with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
                time.sleep(chance.uniform(0.02, 0.25))
                process.kill()
            if (folder / "latest").exists():
                step = first_step(program, config, folder)
                if step < saved:
                    sys.exit(f"step {saved} was saved, but step {step} came back")
                saved = step
            elif saved:
                sys.exit(f"step {saved} was saved, but there is no checkpoint any more")
    print(f"{times} kills, {saved} steps saved")
    if saved == 0:
        sys.exit("nothing was ever saved")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 100)
