#!/usr/bin/env python3
"""Prints the two tables of DeepSeek-V3 in low-precision.md, as tests/accuracy/accuracy_test.py holds them.

usage: deepseek_v3.py PROGRAM

The second one is what the kernels of a forward and a backward of four layers with experts take alone, by kind, beside the kernels of
the compute stream in the trace train.json of deepseek-ai/profile-data. There casts are the kernels whose names say cast or transpose
without SwiGLU, and the gradients that are sent to experts are cast on the communication stream.
"""
import json
import pathlib
import re
import subprocess
import sys

RUN = pathlib.Path(__file__).with_name("deepseek-v3.yaml")
LAYERS = 4
MULTIPROCESSORS = 132 / 112  # all of an H800's over those that the trace's kernels have
RECIPES = {  # first cell of the page's row: low_precision
    "`blockwise`": "blockwise",
    "with `dispatch: low`": "{recipe: blockwise, dispatch: low}",
    "with `implementation: deepseek`": "{recipe: blockwise, implementation: deepseek}",
    "with both": "{recipe: blockwise, implementation: deepseek, dispatch: low}",
    "with both and `activation_input: true`": "{recipe: blockwise, implementation: deepseek, dispatch: low, activation_input: true}",
}
TRACE = {  # kind: milliseconds of the trace, what matches the names of the prediction's ops
    "products in 8 bits": (63.2, r"(attention|experts|shared_experts)\.[\w.]*(up|down|projection)\.(forward|input_gradient|weight_gradient)"),
    "attention": (22, r"core_attention\.flash(_backward)?"),
    "casts": (14.8, r"(?!combine\.)[\w.]+\.(quantise|transpose|store|restore|narrow|widen|cast_back)_\w+"),
    "permutes": (4.8, r"(dispatch\.permute|combine\.unpermute)(_backward)?"),
    "norms": (3.4, r"[\w.]*norm\.(forward|weight_gradient|input_gradient)"),
    "SwiGLU": (2.4, r"[\w.]*activation\.(forward|backward)"),
}


def document(program, command, recipe):
    result = subprocess.run([program, command, RUN, "--set", f"low_precision={recipe}", "--json"], capture_output=True, text=True, check=True)
    return json.loads(result.stdout)


def hours(program, recipe):
    """Thousand GPU hours per trillion tokens, and GiB that the fullest stage allocates."""
    run = document(program, "simulate", recipe)
    return run["gpu_hours_per_trillion_tokens"] / 1e3, max(stage["peak_bytes"] for stage in run["stages"]) / 2**30


def milliseconds(program, recipe):
    """By kind, of the layers with experts."""
    ops = document(program, "layer", recipe)["layers"][-1]["ops"]
    return {
        kind: 1e3 * LAYERS * sum(op["seconds"] for op in ops if re.fullmatch(pattern, op["op"]))
        for kind, (_, pattern) in TRACE.items()
    }


def main():
    program = sys.argv[1]
    for title, recipe in RECIPES.items():
        print(f"| {title} | " + " | ".join(f"{value:.1f}" for value in hours(program, recipe)) + " |")
    plain, own = (milliseconds(program, RECIPES[title]) for title in ("`blockwise`", list(RECIPES)[-1]))
    for kind, (trace, _) in TRACE.items():
        print(f"| {kind} | {trace} | {plain[kind]:.1f} | {own[kind]:.1f} | {own[kind] * MULTIPROCESSORS:.1f} |")


if __name__ == "__main__":
    main()
