"""Kills a sweep at random moments until it ends by itself, and holds its results against those of one never killed.

usage: kill_sweep.py STAGECRAFT CONFIG [sweeps]

Exits 1 where a byte differs, rows that were there are computed again, or a kill leaves anything but the journal or the
results. CONFIG: the base run.
"""

import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time

SWEEP = """base: {config}
values:
  recompute: [none, selective, full]
  batch.micro: [1, 2, 4]
  model.sequence: [512, 1024, 2048, 4096]
  parallel.tensor: [1, 2, 4, 8, 16]
  training.seed: [1, 2, 3, 4, 5, 6, 7]
where: [parallel.tensor > 1 or batch.micro == 1]
"""
ALLOWED = {"r.h5", "r.h5.journal", "r.h5.partial", "r.csv", "r.csv.partial", "sweep.yaml", "whole.h5", "whole.csv"}


def journal_size(folder):
    journal = folder / "r.h5.journal"
    return journal.stat().st_size if journal.exists() else 0


def main(program, config, sweeps):
    chance = random.Random(20251122)
    kills = computed_in_the_end = 0
    with tempfile.TemporaryDirectory(prefix="stagecraft-sweep-") as name:
        folder = pathlib.Path(name)
        (folder / "sweep.yaml").write_text(SWEEP.format(config=config))

        def command(output, *options):
            return [program, "sweep", folder / "sweep.yaml", "-o", folder / f"{output}.h5", "--csv",
                    folder / f"{output}.csv", "--json", *options]

        begin = time.monotonic()
        done = subprocess.run(command("whole"), capture_output=True, check=True)
        whole = time.monotonic() - begin
        rows = json.loads(done.stdout)["rows"]
        ended = 0
        while ended < sweeps or (kills < 2 * sweeps and ended < 4 * sweeps):
            kills_before = kills
            for file in ("r.h5", "r.csv"):
                (folder / file).unlink(missing_ok=True)
            while True:
                before = journal_size(folder)
                jobs = str(chance.choice((1, 2, 3)))
                process = subprocess.Popen(command("r", "--resume", "--jobs", jobs), stdout=subprocess.PIPE,
                                           stderr=subprocess.PIPE)
                try:
                    output, errors = process.communicate(timeout=chance.uniform(0.02, 0.5) * whole)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.communicate()
                    kills += 1
                    names = {path.name for path in folder.iterdir()}
                    assert names <= ALLOWED, names
                    # Only a record that the kill tore may be cut off again; whole ones stay.
                    after = journal_size(folder)
                    assert after >= before - 64 * 1024 or (folder / "r.h5").exists(), (before, after)
                    continue
                assert process.returncode == 0, errors.decode()
                result = json.loads(output)
                assert result["rows"] == rows
                computed_in_the_end += result["computed"]
                ended += 1
                break
            for kind in ("h5", "csv"):
                assert (folder / f"r.{kind}").read_bytes() == (folder / f"whole.{kind}").read_bytes(), kind
            # The first run may have been slowed down by others of this machine.
            if kills < kills_before + 2:
                whole /= 2
            assert {path.name for path in folder.iterdir()} == {"r.h5", "r.csv", "sweep.yaml", "whole.h5", "whole.csv"}
        assert kills >= 2 * sweeps, "too few kills to say anything"
        assert computed_in_the_end < ended * rows, "nothing that was killed was ever kept"
    print(f"{ended} sweeps of {rows} rows, {kills} kills, {computed_in_the_end} rows computed after the last of them")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 8)
