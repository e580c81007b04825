#!/usr/bin/env python3
"""Do Megatron-LM's flags of a plan import as the same plan?

Searches for what a framework can run (`stagecraft plan --launchable`), imports the flags of the
best plans, and compares fingerprints, parameters and FLOPs: 38 searches, four of them of a model
with experts, the best 20 of each. Three of the searches find nothing that fits.

    experiments/launchable/run.py build/plain/apps/stagecraft/stagecraft [--searches N] [--top K]
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Model, GPUs, sequences per iteration, framework. Models of 2022 take GPT-2's vocabulary.
DENSE = ["gpt-22b", "gpt3-175b", "llama3-8b", "llama2-70b", "llama3-70b", "mistral-7b"]
SEARCHES = [(model, gpus, batch, "megatron-core")
            for model in DENSE for gpus, batch in [(16, 32), (64, 64), (64, 256), (128, 128)]]
SEARCHES += [("mixtral-8x7b", gpus, batch, "megatron-core")
             for gpus, batch in [(16, 32), (64, 64), (64, 256), (128, 128)]]
SEARCHES += [(model, gpus, batch, "megatron-2022")
             for model in ["gpt-22b", "gpt3-175b"]
             for gpus, batch in [(32, 64), (64, 64), (64, 256), (96, 96), (128, 128)]]


def run(program, *words):
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def differences(program, folder, entry, version, gpus):
    """What differs between a plan and the import of its flags; nothing if they are equal."""
    whole, imported = folder / "whole.yaml", folder / "imported.yaml"
    whole.write_text(json.dumps(entry["config"]))
    imported.unlink(missing_ok=True)
    code, _, errors = run(program, "import", "megatron", "--megatron", version, "--world-size", gpus,
                          "--system", "selene-a100", "-o", imported, "--",
                          *entry["megatron_flags"].split())
    if code:
        return [errors.strip()]
    plans = []
    for file in (whole, imported):
        code, text, errors = run(program, "simulate", file, "--json")
        if code:
            return [errors.strip()]
        plans.append(json.loads(text))
    return [key for key in ("plan", "parameters", "model_flops") if plans[0][key] != plans[1][key]]


def main():
    options = argparse.ArgumentParser()
    options.add_argument("program")
    options.add_argument("--searches", type=int, default=len(SEARCHES))
    options.add_argument("--top", type=int, default=20)
    options = options.parse_args()
    bad = checked = empty = 0
    with tempfile.TemporaryDirectory() as name:
        for model, gpus, batch, framework in SEARCHES[:: max(1, len(SEARCHES) // options.searches)]:
            words = ["plan", ROOT / f"configs/models/{model}.yaml", "--system",
                     ROOT / "configs/systems/selene-a100.yaml", "--gpus", gpus, "--global-batch",
                     batch, "--top", options.top, "--launchable", framework, "--json"]
            old = framework == "megatron-2022"
            if old:
                words += ["--set", "model.vocabulary=50257"]
            code, text, errors = run(options.program, *words)
            if code == 3:
                empty += 1
                print(f"{model} {gpus} {batch} {framework}: nothing fits")
                continue
            if code:
                sys.exit(errors)
            wrong = 0
            best = json.loads(text)["best"]
            for entry in best:
                checked += 1
                found = entry["megatron_gaps"] or differences(
                    options.program, pathlib.Path(name), entry, "2022" if old else "current", gpus)
                if found:
                    wrong += 1
                    print("  ", found)
            bad += wrong
            print(f"{model} {gpus} {batch} {framework}: {len(best) - wrong} of {len(best)} equal",
                  flush=True)
    print(f"{checked - bad} of {checked} plans equal; {empty} searches found nothing")
    return 1 if bad or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
