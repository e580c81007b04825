"""Twins of stagecraft's blocks, made of Megatron-Core's own modules: what both keep from forward to backward.

usage: compare.py STAGECRAFT FIXTURE

Runs each model of models.py under each of its recompute policies, forward and backward, in PyTorch on the CPU. PyTorch's
hooks say what autograd keeps; names.py says which of stagecraft's tensors each is. Prints both sums and every
difference by its name, and writes FIXTURE, which the tests hold the program against. Exit code 1: something is kept that
has no name, or is of another size.
"""

import collections
import dataclasses
import json
import pathlib
import sys

import megatron_on_cpu

megatron_on_cpu.prepare()

import megatron.core  # noqa: E402, after CUDA was taken out
import models  # noqa: E402
import torch  # noqa: E402
from names import DIFFERENCES, rules  # noqa: E402
from saved_tensors import Recorder  # noqa: E402

sys.path.append(str(pathlib.Path(__file__).parents[2] / "tests"))
from kept_tensors_test import differing, explained, predicted  # noqa: E402


def kept(name, recompute):
    """Saved tensors of one forward pass, whose backward is then run."""
    model = models.build(name, recompute)
    with Recorder(model) as recorder:
        loss = model(**models.inputs())
    result = recorder.kept()
    for tensor in result:
        tensor.module = tensor.module.removeprefix("decoder.layers.0").removeprefix(".")
    loss.float().mean().backward()
    return result


def attributed(tensors, named):
    """Each tensor with the rule that holds for it, as the fixture has it; several names of a rule are taken in turn."""
    taken = collections.Counter()
    result = []
    for tensor in tensors:
        rule = next((rule for rule in named if rule.matches(tensor)), None)
        if rule is None:
            sys.exit(f"{tensor} has no name")
        of_rule = rule.name.split("|")
        name = of_rule[min(taken[id(rule)], len(of_rule) - 1)]
        taken[id(rule)] += 1
        factor = str(rule.factor) if rule.difference and name else "1"
        result.append(dataclasses.asdict(tensor) | {"name": name, "difference": rule.difference, "factor": factor})
    return result


def text_of(made_with, cases):
    """JSON with a line for each tensor."""
    lines = [f'{{"made_with": {json.dumps(made_with)},', f'"differences": {json.dumps(DIFFERENCES)},', '"cases": [']
    for case in cases:
        head = json.dumps({key: case[key] for key in ("name", "recompute", "run")})[:-1]
        lines.append(head + ', "tensors": [')
        lines.append(",\n".join(json.dumps(tensor) for tensor in case["tensors"]) + "]}" + ("," if case is not cases[-1] else "]}"))
    return "\n".join(lines) + "\n"


def main(program, fixture):
    torch.manual_seed(0)
    cases, wrong = [], []
    for name, (model, policies) in models.OURS.items():
        for recompute in policies:
            tensors = attributed(kept(name, recompute), rules(model, recompute))
            case = {"name": name, "recompute": recompute, "run": models.run_file(name, recompute), "tensors": tensors}
            cases.append(case)
            ours = predicted(program, case["run"])
            print(explained(case, ours), flush=True)
            wrong += [f"{name}, {recompute}: {line}" for line in differing(case, ours)]
    made_with = {"torch": torch.__version__, "megatron-core": megatron.core.__version__}
    pathlib.Path(fixture).write_text(text_of(made_with, cases))
    print("\n".join(wrong) or f"{len(cases)} twins: what is kept agrees to the byte, but for the differences named")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
