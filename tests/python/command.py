"""The command `stagecraft`, with which the package is compared, and runs to compare them on."""

import json
import os
import pathlib
import random
import signal
import subprocess

program = os.environ["STAGECRAFT_PROGRAM"]
configs = pathlib.Path(__file__).parents[2] / "configs"
paper = configs / "paper"
# A shell that runs the tests in the background has them ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)


def run(*words):
    """The finished process of `stagecraft WORDS`."""
    return subprocess.run([program, *map(str, words)], capture_output=True, text=True)


def document(*words):
    """What `stagecraft WORDS --json` prints."""
    process = run(*words, "--json")
    if process.returncode != 0:
        raise AssertionError(process.stderr)
    return json.loads(process.stdout)


def set_options(overrides):
    """A mapping of keys as the options --set of a command."""
    words = []
    for key, value in overrides.items():
        text = value if isinstance(value, str) else json.dumps(value)
        words += ["--set", f"{key}={text}"]
    return words


def random_run(draw: random.Random):
    """A run file of the paper and other values of some of its keys, which may be impossible."""
    choices = {
        "parallel.tensor": [1, 2, 4, 8, 16],
        "parallel.pipeline": [1, 2, 4, 6, 8, 16],
        "parallel.interleave": [1, 1, 2, 3],
        "parallel.data": [1, 1, 2, 4],
        "parallel.sequence": [True, False],
        "batch.micro": [1, 2, 4],
        "batch.global": [16, 32, 64, 96],
        "schedule": ["1f1b", "interleaved", "gpipe"],
        "recompute": ["none", "selective", "full", {"granularity": "full", "method": "block", "layers": 2}],
        "model.sequence": [1024, 2048, 4096],
        "model.attention": ["flash", "unfused"],
        "model.precision": ["fp16", "bf16"],
        "memory.distributed_optimizer": [True, False],
        "memory.reserve": ["2 GiB", "0 GiB"],
        "software": ["megatron-2022", "megatron-core"],
        "system": ["selene-a100", "dgx-h100"],
    }
    name = draw.choice(["22b-full", "22b-present", "175b-full", "175b-present"])
    keys = sorted(draw.sample(sorted(choices), draw.randint(2, 7)))
    return paper / f"{name}.yaml", {key: draw.choice(choices[key]) for key in keys}
