"""Twins of stagecraft's blocks, made of Megatron-Core's own modules: what both keep from forward to backward, and the peaks.

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
from live_tensors import LiveTensors  # noqa: E402
from names import DIFFERENCES, at_peak, rules  # noqa: E402
from saved_tensors import Recorder  # noqa: E402

sys.path.append(str(pathlib.Path(__file__).parents[2] / "tests"))
from kept_tensors_test import differing, differing_peaks, explained, predicted, predicted_peaks  # noqa: E402


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


def peaks(name, recompute):
    """What exists at the peaks of forward and backward and is not kept, with what it is in the op program."""
    model = models.build(name, recompute, models.WIDE_VOCABULARY)
    given = models.inputs()
    of_parameters = [tensor for x in model.parameters() for tensor in (x, x.main_grad, x.grad)]
    existing = [*of_parameters, *model.buffers(), *given.values()]
    with LiveTensors(existing) as live:
        with Recorder(model) as recorder:
            loss = model(**given).float().mean()
        kept, result = recorder.storages(), {"forward": live.at_peak}
        live.restart()
        loss.backward()
        result["backward"] = live.at_peak
    for pass_name, tensors in result.items():
        result[pass_name] = []
        for operator, dtype, shape, size in (tensor for key, tensor in tensors.items() if key not in kept):
            known = at_peak(operator, dtype, shape, models.WIDE_VOCABULARY)
            if known is None:
                sys.exit(f"{name}, {recompute}: at the peak of {pass_name} nothing is known of {operator} {dtype} {shape}")
            result[pass_name].append(
                {"operator": operator, "dtype": dtype, "shape": shape, "bytes": size, "name": known[0], "difference": known[1]})
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
    head = {"made_with": made_with, "differences": DIFFERENCES, "wide_vocabulary": models.WIDE_VOCABULARY}
    lines = [json.dumps(head)[:-1] + ",", '"cases": [']
    for case in cases:
        head = json.dumps({key: case[key] for key in ("name", "recompute", "run")})[:-1]
        lines.append(head + ', "tensors": [')
        lines.append(",\n".join(json.dumps(tensor) for tensor in case["tensors"]) + '],\n"peaks": {')
        lines.append(",\n".join(f"{json.dumps(name)}: {json.dumps(tensors)}" for name, tensors in case["peaks"].items()))
        lines.append("}}" + ("," if case is not cases[-1] else "]}"))
    return "\n".join(lines) + "\n"


def main(program, fixture):
    torch.manual_seed(0)
    cases, wrong = [], []
    for name, (model, policies) in models.OURS.items():
        for recompute in policies:
            tensors = attributed(kept(name, recompute), rules(model, recompute))
            run = models.run_file(name, recompute)
            case = {"name": name, "recompute": recompute, "run": run, "tensors": tensors, "peaks": peaks(name, recompute)}
            cases.append(case)
            ours = predicted(program, run)
            print(explained(case, ours), flush=True)
            wrong += [f"{name}, {recompute}: {line}" for line in differing(case, ours)]
            of_peaks = predicted_peaks(program, run, models.WIDE_VOCABULARY)
            wrong += [f"{name}, {recompute}: {line}" for line in differing_peaks(case, of_peaks)]
    made_with = {"torch": torch.__version__, "megatron-core": megatron.core.__version__}
    pathlib.Path(fixture).write_text(text_of(made_with, cases))
    print("\n".join(wrong) or f"{len(cases)} twins: what is kept, and the peaks, agree to the byte, but for the differences named")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
