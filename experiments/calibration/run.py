"""Predicted against executed time, on this machine, of plans that the calibration has not seen.

usage: run.py STAGECRAFT STAGECRAFT_EXEC

Calibrates (about a minute), then simulates four small models under three recompute strategies with the system file
that came out, and executes each in virtual time (four iterations, the median of the last three). Prints iteration
times, their errors, and by how much recompute makes an iteration longer. Best on a machine that does nothing else.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

LLAMA = ", norm: rmsnorm, activation: swiglu, positions: rotary, biases: false, tied_embeddings: false"
MODELS = {  # layers, hidden, heads, sequence, vocabulary, more keys; tensor, pipeline; global, micro
    "gpt-a": (4, 192, 6, 96, 3000, "", 1, 1, 4, 2),
    "gpt-b t2 p2": (4, 320, 10, 160, 2000, "", 2, 2, 8, 1),
    "llama-c p2": (4, 384, 6, 200, 4000, LLAMA, 1, 2, 8, 2),
    "gpt-d t4": (6, 256, 8, 320, 1024, "", 4, 1, 2, 2),
}
RUN = """model: {{layers: {0}, hidden: {1}, heads: {2}, sequence: {3}, vocabulary: {4}, precision: fp32{5}}}
system: here.yaml
parallel: {{tensor: {6}, pipeline: {7}, sequence: {sequence}}}
batch: {{global: {8}, micro: {9}}}
recompute: {recompute}
"""


def result(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def seconds_of(stagecraft, executor, config):
    predicted = result(stagecraft, "simulate", config, "--json")["iteration_seconds"]
    steps = result(executor, "run", config, "--clock", "virtual", "--steps", "4", "--json")["steps"]
    return predicted, statistics.median(step["seconds"] for step in steps[1:])


def main(stagecraft, executor):
    errors, overheads = [], []
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([executor, "calibrate", "-o", f"{folder}/here.yaml"], check=True, stderr=subprocess.DEVNULL)
        for name, sizes in MODELS.items():
            seconds = {}
            for recompute in ("none", "selective", "full"):
                config = pathlib.Path(folder, "run.yaml")
                config.write_text(
                    RUN.format(*sizes, sequence="true" if sizes[6] > 1 else "false", recompute=recompute)
                )
                predicted, executed = seconds[recompute] = seconds_of(stagecraft, executor, config)
                errors.append(100 * (predicted / executed - 1))
                times = f"predicted {1e3 * predicted:8.2f} ms  executed {1e3 * executed:8.2f} ms"
                print(f"{name:12s} {recompute:10s} {times}  {errors[-1]:+6.1f} %", flush=True)
            for recompute in ("selective", "full"):
                more = [100 * (a / b - 1) for a, b in zip(seconds[recompute], seconds["none"])]
                overheads.append(abs(more[0] - more[1]))
                print(f"   {recompute}: {more[0]:.1f} % longer than none predicted, {more[1]:.1f} % executed")
    sizes = [abs(error) for error in errors]
    print(
        f"iterations off by {statistics.mean(sizes):.1f} % on average, {max(sizes):.1f} % at most; "
        f"overheads by {statistics.mean(overheads):.1f} points on average, {max(overheads):.1f} at most"
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
