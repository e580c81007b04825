"""Predicted beside executed: the paper's 22B and 175B runs with a small model (configs/paper/*-twin.yaml).

usage: run.py STAGECRAFT STAGECRAFT_EXEC CONFIGS [FOLDER]

Executes each twin for one iteration in virtual time (ranks take turns on this machine, communication costs what
the system file says) and prints, beside what the simulator predicts, the peak of the fullest stage and the time of
an iteration. Memory has to agree to the byte on every rank, in every category but workspace; otherwise the exit code is 1.
If FOLDER is given, the traces are written there, for `stagecraft reproduce table5 --executed FOLDER`.
Times are not expected to agree: the predicted ones are those of the system that the twin names, an A100.
"""

import json
import pathlib
import subprocess
import sys


def result(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def without_workspace(categories):
    return {name: size for name, size in categories.items() if name != "workspace"}


def main(stagecraft, executor, configs, folder=None):
    print("twins: predicted and executed; ranks are threads, time is virtual")
    print("run            ranks  fullest stage, bytes           an iteration, s    full / present")
    print("                       predicted     counted     predicted  executed  predicted  executed")
    differing = 0
    for model in ("22b", "175b"):
        seconds = {}
        for case in ("full", "present"):
            config = pathlib.Path(configs, "paper", f"{model}-{case}-twin.yaml")
            predicted = result(stagecraft, "simulate", config, "--json")
            trace = ["--detail", "chunk", "--trace", pathlib.Path(folder, config.stem + ".h5")] if folder else []
            executed = result(executor, "run", config, "--clock", "virtual", "--json", *trace)
            for rank in executed["ranks"]:
                stage = predicted["stages"][rank["stage"]]
                is_equal = without_workspace(rank["at_peak"]) == without_workspace(stage["at_peak"])
                differing += not is_equal or rank["activation_peak_bytes"] != stage["activation_peak_bytes"]
            peaks = [
                max(sum(without_workspace(one["at_peak"]).values()) for one in places)
                for places in (predicted["stages"], executed["ranks"])
            ]
            seconds[case] = (predicted["iteration_seconds"], executed["steps"][0]["seconds"])
            line = f"{model + '-' + case:13s} {len(executed['ranks']):6d} {peaks[0]:11d} {peaks[1]:11d}"
            line += f"   {seconds[case][0]:9.4f} {seconds[case][1]:9.4f}"
            if case == "present":
                line += "".join(f" {seconds['full'][i] / seconds['present'][i]:9.2f}" for i in (0, 1))
            print(line)
    print(f"ranks whose counted memory is not what was predicted: {differing}")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
