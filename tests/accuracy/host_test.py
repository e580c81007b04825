#!/usr/bin/env python3
"""The host of Megatron-Core: launches and calls of a GPT layer are those of its source, counted by hand.

usage: host_test.py PROGRAM

Where a launch, or a call, takes 1 ms and nothing else takes time on the host, the host bounds the iteration. A layer more
then lengthens it by as many ms as the layer has launches, or calls, in the forward and backward passes of all microbatches.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

RUN = {"model": {"layers": 2, "hidden": 512, "heads": 8, "sequence": 1024, "vocabulary": 50257, "attention": "flash",
                 "precision": "bf16"},
       "system": "hgx-a100-80", "software": "megatron-core",
       "parallel": {"tensor": 1, "pipeline": 1, "data": 1}, "batch": {"global": 4, "micro": 4}}
# Layer norm and product are a module of Transformer Engine; each product has its bias in it (0.001 for the one that is an op);
# attention draws a state of random numbers; dropout, bias and residual are one compiled kernel and its seed.
FORWARD = 2 * 1 + 4 * 1 + 0.001 + 2 + 2 * 2 + 1  # norms, products, bias, attention, bias-dropout-add, GeLU
# Each product has two gradients, each bias an addition, each norm its gradient, that of its parameters and two additions.
BACKWARD = 8 * 1 + 4 * 1 + 2 * (1 + 1 + 2) + 4 + 1 + 1 + 2 + 2  # ..., attention, q k v joined, GeLU, dropouts, residuals
PARAMETERS = 2 * 2 + 4 * 2  # weights and biases of two norms and four products
# Modules, functions and compiled functions: products, attention, bias-dropout-add with the layer's own modules, GeLU.
FORWARD_CALLS = 4 * 1.33 + 3 + 2 * 5 + 2
BACKWARD_CALLS = 8 * 1.33 + 4 * 1 + 2 * 2 + 1 + 1 + 2 + 2  # ..., hooks of biases and norms, attention, q k v, GeLU, dropouts
NONE = {"kernel": "0 us", "gemm": "0 us", "call": "0 us", "collective": "0 us", "pass": "0 us", "step_launches": "0"}


def milliseconds(program, layers, microbatches=1, of_step=False, **keys):
    sets = {"model.layers": layers, "batch.global": 4 * microbatches,
            **{f"software.host.{key}.value": value for key, value in (NONE | keys).items() if key != "speed"},
            **({"system.node.host_speed.value": keys["speed"]} if "speed" in keys else {})}
    arguments = [word for key, value in sets.items() for word in ("--set", f"{key}={value}")]
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "run.yaml"
        path.write_text(json.dumps(RUN))
        result = subprocess.run([program, "simulate", path, "--json", *arguments], capture_output=True, text=True)
    if result.returncode:
        sys.exit(result.stderr)
    document = json.loads(result.stdout)
    step = document["breakdown_seconds"]["optimizer"]  # with the host's part of it
    return 1000 * (step if of_step else document["iteration_seconds"] - step)


def of_a_layer(program, **keys):
    return milliseconds(program, 3, **keys) - milliseconds(program, 2, **keys)


def main():
    program = sys.argv[1]
    launch = {"kernel": "1 ms", "gemm": "1 ms"}
    checks = (
        ("launches of a layer", of_a_layer(program, **launch), FORWARD + BACKWARD),
        ("launches of four microbatches", of_a_layer(program, microbatches=4, **launch), 4 * (FORWARD + BACKWARD)),
        ("launches on a host of speed 2", of_a_layer(program, speed=2, **launch), (FORWARD + BACKWARD) / 2),
        ("launches of the step", of_a_layer(program, of_step=True, kernel="1 ms", step_launches="1")
         - of_a_layer(program, of_step=True, kernel="1 ms"), PARAMETERS),
        ("calls of a layer", of_a_layer(program, call="1 ms"), FORWARD_CALLS + BACKWARD_CALLS),
        # Two passes of the one chunk, whose accelerator is done first: each lasts 10 ms longer.
        ("passes", milliseconds(program, 2, call="1 ms", **{"pass": "1000 ms"})
         - milliseconds(program, 2, call="1 ms", **{"pass": "990 ms"}), 2 * 10),
    )
    problems = [f"{what}: found {found:.3f} ms; accepted: {accepted:.3f}" for what, found, accepted in checks
                if abs(found - accepted) > 1e-3 * accepted]
    print("\n".join(problems or [f"{len(checks)} counts hold"]))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
