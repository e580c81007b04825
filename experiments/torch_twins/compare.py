"""Twins of stagecraft's blocks, made of a framework's own modules: what both keep from forward to backward, and the peaks.

usage: compare.py STAGECRAFT megatron|huggingface FIXTURE

Runs each model of megatron_models.py or huggingface_models.py under each of its recompute policies, forward and backward,
in PyTorch on the CPU. PyTorch's hooks say what autograd keeps; the framework's names say which of stagecraft's tensors
each is. Prints both sums and every difference by its name, and writes FIXTURE, which the tests hold the program against.
Exit code 1: something is kept that has no name, or is of another size.
"""

import collections
import dataclasses
import importlib
import json
import pathlib
import sys

import torch
from live_tensors import LiveTensors
from run_files import WIDE_VOCABULARY, run_file
from saved_tensors import Recorder, Saved

sys.path.append(str(pathlib.Path(__file__).parents[2] / "tests"))
from kept_tensors_test import differing, differing_peaks, explained, predicted, predicted_peaks  # noqa: E402


def kept(models, name, recompute):
    """Saved tensors of one forward pass, whose backward is then run."""
    model = models.build(name, recompute)
    with Recorder(model) as recorder:
        loss = models.loss_of(model(**models.inputs()))
    result = recorder.kept()
    for tensor in result:
        tensor.module = models.module_of(tensor.module)
    loss.backward()
    return result


def peaks(models, names, name, recompute):
    """What exists at the peaks of forward and backward and is not kept, with what it is in the op program."""
    model = models.build(name, recompute, WIDE_VOCABULARY)
    given = models.inputs()
    of_parameters = [tensor for x in model.parameters() for tensor in (x, x.grad, getattr(x, "main_grad", x.grad))]
    existing = [*of_parameters, *model.buffers(), *given.values()]
    with LiveTensors(existing) as live:
        with Recorder(model) as recorder:
            loss = models.loss_of(model(**given))
        kept = {live.bytes[key][0] for key in recorder.storages() if key in live.bytes}
        result = {"forward": live.at_peak}
        live.restart()
        loss.backward()
        result["backward"] = live.at_peak
    known = names.at_peaks(models.OURS[name][0])
    others = {of: [Saved("", *made) for number, *made in tensors.values() if number not in kept] for of, tensors in result.items()}
    return {of: attributed(tensors, known) for of, tensors in others.items()}


def attributed(tensors, rules):
    """Each tensor with the rule that holds for it, as the fixture has it; several names of a rule are taken in turn."""
    taken = collections.Counter()
    result = []
    for tensor in tensors:
        rule = next((rule for rule in rules if rule.matches(tensor) and taken[id(rule)] != rule.times), None)
        if rule is None:
            sys.exit(f"{tensor} has no name")
        of_rule = rule.name.split("|")
        name = of_rule[min(taken[id(rule)], len(of_rule) - 1)]
        taken[id(rule)] += 1
        # What is a tensor of the op program, of its size, is no difference.
        is_same = name and rule.factor == 1
        of_program = {"name": name, "difference": "" if is_same else rule.difference, "factor": str(rule.factor) if name else "1"}
        result.append(dataclasses.asdict(tensor) | of_program)
    return result


def text_of(head, cases):
    """JSON with a line for each tensor."""
    lines = [json.dumps(head)[:-1] + ",", '"cases": [']
    for case in cases:
        head = json.dumps({key: case[key] for key in ("name", "recompute", "run", "only_ours")})[:-1]
        lines.append(head + ', "tensors": [')
        lines.append(",\n".join(json.dumps(tensor) for tensor in case["tensors"]) + '],\n"peaks": {')
        lines.append(",\n".join(f"{json.dumps(name)}: {json.dumps(tensors)}" for name, tensors in case["peaks"].items()))
        lines.append("}}" + ("," if case is not cases[-1] else "]}"))
    return "\n".join(lines) + "\n"


def main(program, framework, fixture):
    models, names = (importlib.import_module(f"{framework}_{part}") for part in ("models", "names"))
    torch.manual_seed(0)
    cases, wrong = [], []
    for name, (model, policies) in models.OURS.items():
        for recompute in policies:
            tensors = attributed(kept(models, name, recompute), names.rules(name, model, recompute))
            run = run_file(model, recompute)
            case = {"name": name, "recompute": recompute, "run": run, "only_ours": names.only_ours(name, model, recompute),
                    "tensors": tensors, "peaks": peaks(models, names, name, recompute)}  # fmt: skip
            cases.append(case)
            ours = predicted(program, run)
            print(explained(case, ours), flush=True)
            wrong += [f"{name}, {recompute}: {line}" for line in differing(case, ours)]
            of_peaks = predicted_peaks(program, run, WIDE_VOCABULARY)
            wrong += [f"{name}, {recompute}: {line}" for line in differing_peaks(case, of_peaks)]
    head = {"made_with": models.versions(), "differences": names.DIFFERENCES, "wide_vocabulary": WIDE_VOCABULARY}
    pathlib.Path(fixture).write_text(text_of(head, cases))
    print("\n".join(wrong) or f"{len(cases)} twins: what is kept, and the peaks, agree to the byte, but for the differences named")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
