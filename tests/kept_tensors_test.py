"""Holds what stagecraft keeps from forward to backward against what PyTorch was seen to keep.

usage: kept_tensors_test.py STAGECRAFT FIXTURE

experiments/torch_twins wrote the fixture: models made of Megatron-Core's or Hugging Face's own modules ran on the CPU,
and PyTorch's hooks said which tensors autograd kept. Each is a tensor of the op program, of as many bytes; or stands for
one in another form, so many times as large; or has no counterpart. Tensors that only the op program keeps are of bytes
counted by hand. All but the first carry the name of a difference. Nothing else may differ.
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

# Kept outside of the layer, besides all of modules of multi-token prediction; of these the program reports the sum.
OUTSIDE = {"tokens", "causal_mask", "embedding.dropout_mask", "final_norm.input", "final_norm.statistics", "head.logits.input",
           "head.logits.output", "loss.softmax", "loss.labels"}  # fmt: skip


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


def predicted(program, run):
    """Bytes by tensor of the layer, and of all others together."""
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder, "run.yaml")
        config.write_text(json.dumps(run))
        layer = json.loads(output(program, "layer", config, "--json"))["layers"][0]
        outside = held(program, config)[0] - layer["saved_bytes"]
    return {tensor["tensor"]: tensor["bytes"] for tensor in layer["saved"]} | {"outside": outside}


def predicted_peaks(program, run, vocabulary):
    """What the passes hold at their peaks beyond what the forward pass leaves."""
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder, "run.yaml")
        config.write_text(json.dumps(run | {"model": run["model"] | {"vocabulary": vocabulary}}))
        kept, *peaks = held(program, config)
    return {"forward": peaks[0] - kept, "backward": peaks[1] - kept}


def same_bytes(tensor):
    """Bytes of the op program's tensor that a tensor of PyTorch is or stands for."""
    return fractions.Fraction(tensor["bytes"]) / fractions.Fraction(tensor["factor"]) if tensor["name"] else 0


def stands_for(case):
    """Bytes that the op program has to keep of each tensor, if PyTorch's are what they stand for."""
    result = collections.Counter()
    for tensor in case["tensors"]:
        if tensor["name"]:
            is_outside = tensor["name"] in OUTSIDE or tensor["name"].startswith("prediction.")
            result["outside" if is_outside else tensor["name"]] += same_bytes(tensor)
    for name, (_, size) in case["only_ours"].items():
        result[name] += size
    return result


def differing(case, ours):
    """A line for each tensor that only one of the two keeps, or keeps in another size."""
    theirs = stands_for(case)
    for name in sorted(theirs.keys() | ours.keys()):
        if ours.get(name, 0) != theirs[name]:
            yield f"{name}: PyTorch keeps {theirs[name]} bytes of it, stagecraft {ours.get(name, 0)}"


def differing_peaks(case, ours):
    """At its peaks PyTorch holds the logits, or their gradient, beyond what is kept; all else has a difference's name.
    A loss of the op program lets go of its targets before it has made the gradient."""
    labels = next(tensor["bytes"] for tensor in case["tensors"] if tensor["name"] == "loss.labels")
    for name, tensors in case["peaks"].items():
        theirs = sum(map(same_bytes, tensors)) - (labels if name == "backward" else 0)
        if ours[name] != theirs:
            yield f"peak of {name}: PyTorch holds {theirs} bytes, stagecraft {ours[name]}"


def explained(case, ours):
    """Both sums, and what each named difference adds to PyTorch's, which leaves nothing."""
    by_name = collections.Counter()
    for tensor in case["tensors"]:
        if tensor["difference"]:
            by_name[tensor["difference"]] += tensor["bytes"] - same_bytes(tensor)
    for difference, size in case["only_ours"].values():
        by_name[difference] -= size
    kept = sum(tensor["bytes"] for tensor in case["tensors"])
    differences = [f"{int(value):+} {name}" for name, value in by_name.items() if value]
    rest = kept - sum(ours.values()) - sum(by_name.values())
    return f"{case['name']:14s} {case['recompute']:18s} {sum(ours.values()):8d} {kept:8d} {int(rest):5d}  {', '.join(differences)}"


def wrong_cases(program, fixture):
    contents = json.loads(pathlib.Path(fixture).read_text())
    for case in contents["cases"]:
        lines = list(differing(case, predicted(program, case["run"])))
        lines += differing_peaks(case, predicted_peaks(program, case["run"], contents["wide_vocabulary"]))
        yield from (f"{case['name']}, {case['recompute']}: {line}" for line in lines)
        named = {tensor["difference"] for tensor in itertools.chain(case["tensors"], *case["peaks"].values())}
        named |= {difference for difference, _ in case["only_ours"].values()}
        yield from (f"{case['name']}: difference {name} is not explained" for name in named - {"", *contents["differences"]})


def main(program, fixture):
    wrong = list(wrong_cases(program, fixture))
    print("\n".join(wrong) or "all twins agree")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
