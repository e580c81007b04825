"""Executed beside simulated: Tables 4 and 5 of the paper and small twins of its 22B and 175B runs, in one table.

usage: run.py STAGECRAFT STAGECRAFT_EXEC CONFIGS [FOLDER]

The rows of the paper's tables are predicted for its machine, and their error is that over the published value. The
twins (configs/paper/*-twin.yaml) have a small model, so that this machine executes them, in virtual time: ranks take
turns. Their memory has to agree to the byte on every rank, in every category but workspace; otherwise the exit code
is 1. For their time this machine is calibrated first (about a minute), and both programs use the system file that
comes out; the error is the predicted time over the median of three executed iterations.
If FOLDER is given, it gets the system file, and traces of the twins on the machine of their run files, for
`stagecraft reproduce table5 --executed FOLDER`.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

most_percent = 25  # of a twin's time, on a machine that does nothing else
units = {"forward_seconds": (1e3, "ms"), "backward_seconds": (1e3, "ms"), "iteration_seconds": (1, "s")}
columns = "{:8s} {:31s} {:>9s} {:>9s} {:>9s} {:>8s}  {}"


def show(*cells):
    print(columns.format(*cells).rstrip(), flush=True)


def result(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def without_workspace(categories):
    return {name: size for name, size in categories.items() if name != "workspace"}


def show_paper(stagecraft):
    """Prints the rows of both tables."""
    tables = result(stagecraft, "reproduce", "table4", "table5", "--json")
    for name, title in (("table4", "Table 4"), ("table5", "Table 5")):
        for row in tables[name]:
            scale, unit = units[row["quantity"]]
            what = f"{row['model']} {row['case']} {row['quantity'].removesuffix('_seconds')}"
            published, predicted = (f"{scale * row[key]:.2f} {unit}" for key in ("published", "predicted"))
            show(title, what, published, predicted, "", f"{row['error_percent']:+.1f} %", "")


def calibrated(executor, folder):
    """The system file of this machine for the twins' precision, and whether the machine was busy."""
    here = pathlib.Path(folder, "here.yaml").resolve()
    done = subprocess.run([executor, "calibrate", "--precision", "fp16", "-o", here], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return here, "the machine was busy" in done.stderr


def is_equal(predicted, rank):
    """Whether a rank held what was predicted for its stage."""
    stage = predicted["stages"][rank["stage"]]
    peaks = [without_workspace(one["at_peak"]) for one in (rank, stage)]
    return peaks[0] == peaks[1] and rank["activation_peak_bytes"] == stage["activation_peak_bytes"]


def show_twins(stagecraft, executor, configs, here, trace_folder):
    """Prints the rows of the twins; returns their errors in percent and the number of ranks whose memory differs."""
    errors, differing = [], 0
    for config in sorted(pathlib.Path(configs, "paper").glob("*-twin.yaml")):
        words = ["run", config, "--clock", "virtual", "--json"]
        trace = []
        if trace_folder:
            trace = ["--detail", "chunk", "--trace", pathlib.Path(trace_folder, config.stem + ".h5")]
        predicted = result(stagecraft, "simulate", config, "--json")
        ranks = result(executor, *words, *trace)["ranks"]
        wrong = sum(not is_equal(predicted, rank) for rank in ranks)
        differing += wrong

        setting = ["--set", f"system={here}"]
        seconds = result(stagecraft, "simulate", config, "--json", *setting)["iteration_seconds"]
        steps = result(executor, *words, "--steps", "4", *setting)["steps"]
        executed = statistics.median(step["seconds"] for step in steps[1:])
        errors.append(100 * (seconds / executed - 1))
        bytes_text = f"equal on {len(ranks)} ranks" if wrong == 0 else f"differ on {wrong} of {len(ranks)} ranks"
        times = [f"{1e3 * value:.2f} ms" for value in (seconds, executed)]
        error = f"{errors[-1]:+.1f} %"
        show("twin", config.stem.removesuffix("-twin"), "", *times, error, bytes_text)
    return errors, differing


def main(stagecraft, executor, configs, folder=None):
    with tempfile.TemporaryDirectory() as temporary:
        here, is_busy = calibrated(executor, folder or temporary)
        show("", "", "published", "predicted", "executed", "error", "bytes")
        show_paper(stagecraft)
        errors, differing = show_twins(stagecraft, executor, configs, here, folder)
    print("not executed: the rows of Tables 4 and 5, for they need up to 512 A100s; the twins are small models instead")
    most = max(abs(error) for error in errors)
    if is_busy:
        print("The machine was busy while it was calibrated: the twins' times and errors say little.")
    elif most > most_percent:
        print(f"A twin's time is {most:.0f} % off, more than {most_percent} %: something else may have run meanwhile.")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
