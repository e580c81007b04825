"""Holds what stagecraft keeps from forward to backward against what PyTorch was seen to keep.

usage: kept_tensors_test.py FIXTURE STAGECRAFT

experiments/torch_twins wrote the fixture: models made of Megatron-Core's own modules ran on the CPU, and PyTorch's hooks
said which tensors autograd kept. Each is a tensor of the op program, of as many bytes; or stands for one in another form,
so many times as large; or has no counterpart. The latter two carry the name of a difference. Nothing else may differ.
"""

import collections
import csv
import fractions
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile

# What the op program keeps and Megatron-Core's modules on the CPU do not.
ONLY_OURS = {"dispatch.row_map": "unfused_permutation", "router.scores": "unfused_router"}
# Kept outside of the layer; of these the program reports the sum.
OUTSIDE = {"tokens", "causal_mask", "embedding.dropout_mask", "final_norm.input", "final_norm.statistics", "head.logits.input",
           "loss.exponentials", "loss.labels"}  # fmt: skip
# Of which the sum, and the peaks, are compared here: what is outside of the layer depends on nothing else.
COMPARED_OUTSIDE = {("gpt", "none"), ("llama", "none")}


def output(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return done.stdout


def rows(program, trace, *words):
    path = trace.with_suffix(".csv")
    output(program, "export", trace, "--format", "csv", *words, "-o", path)
    with path.open() as file:
        return list(csv.DictReader(file))


def held(program, config):
    """Bytes of activations when the first op after the forward pass begins, and the peaks before and after."""
    trace = config.with_suffix(".h5")
    output(program, "simulate", config, "--detail", "op", "--trace", trace)
    end = min(int(row["start_ps"]) for row in rows(program, trace) if row["phase"] in ("input_gradient", "weight_gradient", "recompute"))
    states = [
        (int(row["time_ps"]) < end, sum(int(row[category]) for category in ("activations", "recomputed", "communication")))
        for row in rows(program, trace, "--memory")
    ]
    before = [size for is_before, size in states if is_before]
    return before[-1], max(before), max(size for is_before, size in states if not is_before)


def predicted(program, run, has_outside=True):
    """Bytes by tensor of the layer, and of all others together."""
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder, "run.yaml")
        config.write_text(json.dumps(run))
        layer = json.loads(output(program, "layer", config, "--json"))["layers"][0]
        others = {"outside": held(program, config)[0] - layer["saved_bytes"]} if has_outside else {}
    return {tensor["tensor"]: tensor["bytes"] for tensor in layer["saved"]} | others


def predicted_peaks(program, run, vocabulary):
    """What the passes hold at their peaks beyond what the forward pass leaves."""
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder, "run.yaml")
        config.write_text(json.dumps(run | {"model": run["model"] | {"vocabulary": vocabulary}}))
        kept, *peaks = held(program, config)
    return {"forward": peaks[0] - kept, "backward": peaks[1] - kept}


def stands_for(case):
    """Bytes that the op program has to keep of each tensor, if PyTorch's are what they stand for."""
    result = collections.Counter()
    for tensor in case["tensors"]:
        if tensor["name"]:
            name = "outside" if tensor["name"] in OUTSIDE else tensor["name"]
            result[name] += fractions.Fraction(tensor["bytes"]) / fractions.Fraction(tensor["factor"])
    return result


def differing(case, ours):
    """A line for each tensor that only one of the two keeps, or keeps in another size."""
    theirs = stands_for(case)
    for name in sorted(theirs.keys() | ours.keys()):
        if (name not in theirs and name in ONLY_OURS) or (name == "outside" and name not in ours):
            continue
        if ours.get(name, 0) != theirs[name]:
            yield f"{name}: PyTorch keeps {theirs[name]} bytes of it, stagecraft {ours.get(name, 0)}"


def differing_peaks(case, ours):
    """At its peaks PyTorch holds the logits, or their gradient, beyond what is kept; all else has a difference's name.
    The op program's loss lets go of the targets before it has made the gradient."""
    labels = sum(tensor["bytes"] for tensor in case["tensors"] if tensor["name"] == "loss.labels")
    for name, tensors in case["peaks"].items():
        theirs = sum(tensor["bytes"] for tensor in tensors if tensor["name"]) - (labels if name == "backward" else 0)
        if ours[name] != theirs:
            yield f"peak of {name}: PyTorch holds {theirs} bytes, stagecraft {ours[name]}"


def explained(case, ours):
    """Both sums, and what each named difference adds to PyTorch's, which leaves nothing."""
    by_name = collections.Counter()
    for tensor in case["tensors"]:
        if tensor["difference"]:
            same = fractions.Fraction(tensor["bytes"]) / fractions.Fraction(tensor["factor"]) if tensor["name"] else 0
            by_name[tensor["difference"]] += tensor["bytes"] - same
    theirs = stands_for(case)
    for name, difference in ONLY_OURS.items():
        if name not in theirs:
            by_name[difference] -= ours.get(name, 0)
    kept = sum(tensor["bytes"] for tensor in case["tensors"])
    differences = [f"{int(value):+} {name}" for name, value in by_name.items() if value]
    rest = kept - sum(ours.values()) - sum(by_name.values())
    return f"{case['name']:14s} {case['recompute']:18s} {sum(ours.values()):8d} {kept:8d} {int(rest):5d}  {', '.join(differences)}"


def main(fixture, program):
    contents = json.loads(pathlib.Path(fixture).read_text())
    wrong = []
    for case in contents["cases"]:
        is_whole = (case["name"], case["recompute"]) in COMPARED_OUTSIDE
        lines = list(differing(case, predicted(program, case["run"], is_whole)))
        if is_whole:
            lines += differing_peaks(case, predicted_peaks(program, case["run"], contents["wide_vocabulary"]))
        wrong += [f"{case['name']}, {case['recompute']}: {line}" for line in lines]
        of_all = itertools.chain(case["tensors"], *case["peaks"].values())
        unnamed = {tensor["difference"] for tensor in of_all} - {"", *contents["differences"]}
        wrong += [f"{case['name']}: difference {name} is not explained" for name in unnamed]
    print("\n".join(wrong) or f"{len(contents['cases'])} twins agree")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
