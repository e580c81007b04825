"""Reads the results of a sweep as others read them, and holds them against `simulate --json`.

usage: read_sweep.py STAGECRAFT SWEEPS

SWEEPS: configs/sweeps. With pandas where it is installed. Exits 77 without h5py.
"""

import csv
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import h5py
except ImportError:
    print("python3-h5py is not installed")
    sys.exit(77)

RUN = {"22B": "22b", "175B": "175b", "530B": "530b", "1T": "1t"}


def main(program, sweeps):
    with tempfile.TemporaryDirectory(prefix="stagecraft-sweep-") as name:
        folder = pathlib.Path(name)
        subprocess.run([program, "sweep", sweeps / "strategies.yaml", "-o", folder / "r.h5", "--csv", folder / "r.csv"],
                       check=True, stdout=subprocess.DEVNULL)
        with h5py.File(folder / "r.h5") as file:
            names = file.attrs["columns"].decode().split()
            assert set(names) == set(file) and file.attrs["schema"] == b"stagecraft.sweep/2"
            assert {str(file[name].dtype) for name in names if file[name].dtype.kind != "S"} == {"int64", "float64"}
            assert all(len(file[name].shape) == 1 for name in names)
            assert file["iteration_seconds"].attrs["unit"] == b"s" and file["peak_bytes"].attrs["unit"] == b"byte"
            columns = {name: (file[name].asstr() if file[name].dtype.kind == "S" else file[name])[:].tolist()
                       for name in names}
        with open(folder / "r.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        assert list(rows[0]) == names and len(rows) == len(columns["index"]) == 20
        for i, row in enumerate(rows):
            for column in names:
                value = columns[column][i]
                is_absent = value != value  # not a number: it does not apply
                assert row[column] == ("" if is_absent else str(value)) or float(row[column]) == value, column
                assert not column.endswith("_bytes") or is_absent or row[column].isdigit(), column
        # The paper's own runs are rows of the sweep.
        for i, (size, strategy) in enumerate(zip(columns["size"], columns["strategy"])):
            if strategy not in ("full", "present"):
                continue
            run = sweeps.parent / "paper" / f"{RUN[size]}-{strategy}.yaml"
            done = subprocess.run([program, "simulate", run, "--json"], check=True, capture_output=True)
            expected = json.loads(done.stdout)
            for key in ("iteration_seconds", "mfu", "hfu", "hfu_paper", "bubble_fraction", "tokens_per_second", "plan"):
                assert columns[key][i] == expected[key], (size, strategy, key)
            assert columns["peak_bytes"][i] == max(stage["peak_bytes"] for stage in expected["stages"])
            for section in ("layer", "breakdown_seconds"):
                for key, value in expected[section].items():
                    assert columns[f"{section}_{key}"][i] == value, (size, strategy, key)
        try:
            import pandas
        except ImportError:
            print("without pandas")
        else:
            frame = pandas.DataFrame(columns)
            assert list(frame.groupby("size", sort=False)["mfu"].idxmax().index) == list(RUN)
    print(f"{len(rows)} rows of {len(names)} columns")


if __name__ == "__main__":
    main(sys.argv[1], pathlib.Path(sys.argv[2]))
