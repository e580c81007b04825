#!/usr/bin/env python3
"""Holds `stagecraft import megatron --script` against what bash really passes to Python.

usage: launch_scripts.py PROGRAM FOLDER

Each script below FOLDER with --num-layers is imported, first as it is, then with --world-size and --vocab-size if the message
asks for them. bash runs it, too: in a jail (bubblewrap) without network, where only a copy of FOLDER can be written and
launchers and Python write down their arguments. Placeholders such as `=<path>` are filled in for both. A script gets the words
of the file SCRIPT.arguments, if there is one, as its arguments. Prints what import refuses, each value that differs, models
that have experts for one of the two alone, and a line of sums for each folder in FOLDER. Scripts that need variables of their
user are refused with the variables' names.
"""
import collections
import json
import math
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

LAUNCHERS = ("python", "python3", "torchrun", "deepspeed", "srun", "mpirun", "mpiexec", "accelerate", "msrun")
# Writes its words down, and starts a command in quotes that it is given, as srun bash -c "..." is.
RECORDER = """#!/bin/bash
printf '%s\\0' "$0" "$@" $'\\x01' >>/out/calls
while [ $# -gt 1 ]; do
  if [[ $1 == *bash && $2 == -*c ]]; then exec bash -c "$3"; fi
  shift
done
"""
# What is missing in the jail must not end a script that stops at the first error.
TOLERANT = "trap 'set +e' DEBUG; set -o functrace; cd() { builtin cd \"$@\" 2>/dev/null || true; }\n"
# The flag, former names, and the member of the run file that it must be.
VALUES = {"num-layers": "model.layers", "hidden-size": "model.hidden", "num-attention-heads": "model.heads",
          "seq-length": "model.sequence", "ffn-hidden-size": "model.ffn_hidden", "kv-channels": "model.head_dim",
          "norm-epsilon layernorm-epsilon": "model.norm_epsilon", "hidden-dropout": "model.dropout",
          "tensor-model-parallel-size": "parallel.tensor", "pipeline-model-parallel-size": "parallel.pipeline",
          "micro-batch-size batch-size": "batch.micro", "global-batch-size": "batch.global", "seed": "training.seed",
          "lr": "training.learning_rate", "clip-grad": "training.clip", "weight-decay": "training.weight_decay",
          "adam-beta2": "training.beta2", "init-method-std": "training.init_std",
          "num-experts moe-num-experts": "model.experts.count", "moe-ffn-hidden-size": "model.experts.ffn_hidden"}
# Flags beside which the value of another one is not that of the run file: layers that do nothing, heads of latents.
CHANGED_BY = {"num-layers": "noop-layers", "kv-channels": "multi-latent-attention"}


def arguments_of(script):
    """The arguments that a script is started with."""
    file = script.with_name(script.name + ".arguments")
    return shlex.split(file.read_text()) if file.exists() else []


def fill_in(script):
    """Replaces the placeholders of a script, which bash takes as redirections."""
    text = script.read_text(errors="surrogateescape")
    filled = re.sub(r"""(=["']?)<[^<>=$\n]*>""", r"\1filled-in", text)
    script.write_text(filled, errors="surrogateescape")


def passed_by_bash(script, folder):
    """The flags of the last command with --num-layers that bash starts, with their values; none if it starts none."""
    with tempfile.TemporaryDirectory() as name:
        jail = pathlib.Path(name)
        (jail / "bin").mkdir()
        for launcher in LAUNCHERS:
            (jail / "bin" / launcher).write_text(RECORDER)
            (jail / "bin" / launcher).chmod(0o755)
        (jail / "tolerant").write_text(TOLERANT)
        binds = ["--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib",
                 "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp",
                 "--bind", folder, "/scripts", "--bind", name, "/out"]
        variables = ["--clearenv", "--setenv", "PATH", "/out/bin:/usr/bin:/bin", "--setenv", "BASH_ENV", "/out/tolerant"]
        inside = pathlib.PurePosixPath("/scripts") / script.relative_to(folder)
        subprocess.run(["timeout", "20", "bwrap", "--unshare-all", "--die-with-parent", *binds, *variables, "--chdir",
                        str(inside.parent), "bash", inside.name, *arguments_of(script)],
                       stdin=subprocess.DEVNULL, capture_output=True, check=False)
        calls = jail / "calls"
        text = calls.read_text(errors="replace") if calls.exists() else ""
    flags = {}
    for call in text.split("\x01\0"):
        words = call.split("\0")
        if len(words) > 1 and any("--num-layers" in word and " " in word for word in words):
            words = [part for word in words for part in (shlex.split(word) if "--num-layers" in word else [word])]
        if any(re.fullmatch("--num-layers(=.*)?", word) for word in words):
            flags = flags_of(words)
    return flags


def flags_of(words):
    """The first value of each flag of a command line."""
    flags, name = {}, None
    for word in words:
        if match := re.fullmatch(r"--([\w-]+)(?:=(.*))?", word, re.DOTALL):
            name = match[1]
            flags[name] = match[2]
        elif name and flags[name] is None:
            flags[name] = word
    return flags


def imported(program, script, flags):
    """The run file that import makes, or None; whether it needed remedies; and what it said."""
    degrees = [int(flags.get(name) or 1) for name in flags if re.fullmatch(
        "(tensor-model|pipeline-model|context|expert-model)-parallel-size", name) and (flags[name] or "1").isdigit()]
    command = [program, "import", "megatron", "--json", "--script", str(script), *arguments_of(script)]
    for has_remedies in (False, True):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return json.loads(done.stdout)["config"], has_remedies, ""
        if "world size: missing" in done.stderr:
            command += ["--world-size", str(math.prod(degrees))]
        if "--vocab-size: missing" in done.stderr:
            command += ["--", "--vocab-size", "50257"]
    return None, True, done.stderr


def differences(flags, config):
    """The values that are compared, and those that differ: flag, what bash passes, what import has."""
    compared = []
    for names, path in VALUES.items():
        given = [flags[name] for name in names.split() if flags.get(name)]
        value = config
        for key in path.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        is_changed = CHANGED_BY.get(names) in flags
        if given and value is not None and not is_changed and re.fullmatch(r"[\d._]+(e-?\d+)?", given[0]):
            compared.append((names, float(given[0].replace("_", "")), float(value)))
    return compared, [row for row in compared if not math.isclose(row[1], row[2], rel_tol=1e-12)]


def has_experts(flags):
    """Whether bash passes experts."""
    counts = [flags[name] for name in ("num-experts", "moe-num-experts") if flags.get(name)]
    return bool(counts) and any(re.fullmatch(r"\d+", count) and int(count) > 1 for count in counts)


def compare(program, script, folder, sums):
    """Prints what differs for a script, and adds to the sums of its folder."""
    name = script.relative_to(folder)
    flags = passed_by_bash(script, folder)
    config, has_remedies, message = imported(program, script, flags)
    sums["scripts"] += 1
    if config is None:
        print(f"{name}: {message.strip().splitlines()[0]}")
        return
    sums["accepted"] += 1
    sums["plain"] += not has_remedies
    compared, different = differences(flags, config)
    sums["compared"] += bool(compared)
    sums["values"] += len(compared)
    sums["different"] += len(different)
    for names, bash, ours in different:
        print(f"{name}: --{names}: bash passes {bash:g}, import has {ours:g}")
    if flags and has_experts(flags) != ("experts" in config["model"]):
        sums["different"] += 1
        one, other = ("bash", "import") if has_experts(flags) else ("import", "bash")
        print(f"{name}: {one} has experts, {other} has none")


def main():
    program, folder = sys.argv[1], pathlib.Path(sys.argv[2]).resolve()
    all_sums = collections.defaultdict(collections.Counter)
    with tempfile.TemporaryDirectory() as name:
        copy = pathlib.Path(name) / "scripts"
        shutil.copytree(folder, copy)
        scripts = [path for path in sorted(copy.rglob("*")) if path.suffix in (".sh", ".slurm", ".sbatch")
                   and "--num-layers" in path.read_text(errors="replace")]
        for script in scripts:
            fill_in(script)
        for script in scripts:
            compare(program, script, copy, all_sums[script.relative_to(copy).parts[0]])
    total = collections.Counter()
    for sums in all_sums.values():
        total.update(sums)
    for part, sums in [*sorted(all_sums.items()), ("all", total)]:
        print(f"{part}: {sums['scripts']} scripts, {sums['plain']} accepted as they are, {sums['accepted']} with remedies; "
              f"{sums['compared']} compared, {sums['values']} values, {sums['different']} different")


if __name__ == "__main__":
    main()
