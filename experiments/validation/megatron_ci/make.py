#!/usr/bin/env python3
"""Makes ../data/megatron-ci.csv and ../megatron-ci.yaml, the runs of Megatron-LM's own functional tests.

usage: make.py GOLDEN.csv MEGATRON PROGRAM
  GOLDEN.csv  the tests' golden values, one row per test case and machine, with all model flags as JSON (`flags`)
  MEGATRON    a git clone of Megatron-LM that has commit d98e8a64, from which the golden values are
  PROGRAM     the stagecraft program, whose `import megatron` reads the flags

A test writes the bytes of its last rank, so of the last stage. What the environment of a test says is read from its
model_config.yaml. Flags and keys that are not modelled, and runs that cannot be imported, are counted on standard error.
"""
import collections
import csv
import io
import json
import pathlib
import subprocess
import sys

import yaml

HERE = pathlib.Path(__file__).resolve().parent
COMMIT = "d98e8a64"
SYSTEMS = {"a100": "hgx-a100-80", "h100": "dgx-h100", "gb200": "gb200-nvl72"}
ENVIRONMENT = ("CUBLAS_WORKSPACE_CONFIG", "PYTORCH_CUDA_ALLOC_CONF", "CUDA_DEVICE_MAX_CONNECTIONS")
SECTIONS = ("model", "parallel", "batch", "schedule", "recompute", "memory")  # whose keys are columns of their own
MEASURED = {"measured.iteration_seconds": "iter_time_median_s", "measured.allocated_bytes": "mem_max_last",
            "measured.first_allocated_bytes": "mem_max_first", "measured.resident_bytes": "mem_alloc_last"}
# ff70b248 of 17 March 2026 made types of Megatron-FSDP auto, which were fp32. The row of H100 that was committed on the 22nd
# has the bytes of GB200's of the 5th, so that it is of before.
FSDP_TYPES_AUTO = 1774224000
FAMILIES = ("gpt", "moe", "mixtral")  # those that pretrain_gpt.py trains


def group(row, flags):
    """What competes with the run: the environment, and for rows that are no core rows what they are apart for."""
    apart = [name for name, holds in (
        ("grpo", "grpo-group-size" in flags),
        ("modelopt", "export-te-mcore-model" in flags or "modelopt" in row["id"]),
        ("fsdp", "use-megatron-fsdp" in flags), ("fp8", row["precision"].startswith("fp8"))) if holds]
    return " ".join([row["env"], *apart])


def words(flags):
    for name, value in flags.items():
        yield f"--{name}"
        if value is not True:
            yield from str(value).split() if "|" not in str(value) else [str(value)]


def case_of(megatron, row):
    path = pathlib.PurePosixPath(row["path"]).with_name("model_config.yaml")
    shown = subprocess.run(["git", "-C", megatron, "show", f"{COMMIT}:{path}"], capture_output=True, text=True)
    return yaml.safe_load(shown.stdout) if shown.returncode == 0 else {}  # {}: a test that has golden values only


def environment(case):
    variables = case.get("ENV_VARS") or {}
    return [f"{name}={variables[name]}" for name in ENVIRONMENT if name in variables]


def recorded(megatron, row):
    """The second of the commit that wrote a row's bytes; the last one before 93ebf8d7, which changed times alone."""
    shown = subprocess.run(["git", "-C", megatron, "log", "-1", "--format=%ct", "93ebf8d72f^", "--", row["path"]],
                           capture_output=True, text=True)
    return int(shown.stdout)


def of_the_stack(megatron, case, flags, row):
    """What the flags change in the stack, where no key of a run says it."""
    if "no-gradient-accumulation-fusion" in flags:  # bf16 written and read, fp32 read and written
        yield "software.kernels.accumulation_bytes", 2 + 2 + 4 + 4
    if (case.get("MODEL_ARGS") or {}).get("--log-num-zeros-in-grad"):  # count_zeros_fp32: 4 kernels a parameter, beside 1
        yield "software.host.step_launches", 4 + 1
    # 378d81fb of May 2026 (pull request 4717) keeps the buffer of the embedding, which --log-params-norm had freed before
    # bytes are read (calc_params_l2_norm).
    if "use-megatron-fsdp" in flags and recorded(megatron, row) < 1780153729:
        yield "software.memory.kept_root", False


def defaults_then(megatron, row, flags):
    """Flags for what Megatron-FSDP left out when a row was recorded, where it has another default by now."""
    if "use-megatron-fsdp" not in flags or recorded(megatron, row) >= FSDP_TYPES_AUTO:
        return []
    return [word for flag in ("main-grads-dtype", "grad-comm-dtype") if f"megatron-fsdp-{flag}" not in flags
            for word in (f"--megatron-fsdp-{flag}", "fp32")]


def imported(megatron, program, case, row, flags):
    system = next((name for machine, name in SYSTEMS.items() if machine in row["env"]), None)
    if row["family"] not in FAMILIES or system is None:
        return None, f"family {row['family']}" if system else f"{row['env']} names no machine"
    if row["test_type"] == "release" and not row["gpus"]:
        return None, "a release run on an unknown number of GPUs"
    result = subprocess.run([program, "import", "megatron", "--json", "--world-size", row["gpus"] or "8", "--system", system,
                             "--", *environment(case), "pretrain_gpt.py", *words(flags),
                             *defaults_then(megatron, row, flags)], capture_output=True, text=True)
    return (json.loads(result.stdout), "") if result.returncode == 0 else (None, result.stderr.splitlines()[0][:140])


def flat(config):
    for section, value in config.items():
        if section in SECTIONS and isinstance(value, dict):
            yield from ((f"{section}.{key}", entry) for key, entry in value.items())
        else:
            yield section, value


def cell(value):
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


def nested(config):
    run = {}
    for key, value in config.items():
        section, _, name = key.partition(".")
        if name:
            run.setdefault(section, {})[name] = value
        else:
            run[key] = value
    return run


def main():
    golden, megatron, program = sys.argv[1:]
    runs, counts = [], collections.Counter()
    with open(golden, newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        flags = json.loads(row["flags"])
        case = case_of(megatron, row)
        document, problem = imported(megatron, program, case, row, flags)
        if document is None:
            counts[f"cannot be imported: {problem}"] += 1
            continue
        counts.update(f"left out: {entry['name']}, {entry['effect']} {entry['direction']}"
                      for entry in document["left_out"] if entry["effect"] != "none")
        measured = {"id": row["id"].removeprefix("mlm-"), "group": group(row, flags),
                    "measured.stage": int(row["pp"]) - 1, **{column: row[name] for column, name in MEASURED.items()}}
        runs.append((measured, dict(flat(document["config"])) | dict(of_the_stack(megatron, case, flags, row))))
    keys = list(dict.fromkeys(key for _, config in runs for key in config))
    varied = [key for key in keys if key.startswith("software.")  # a column: the rows' `software` would replace it
              or any(config.get(key) != runs[0][1].get(key) for _, config in runs)]
    optional = [key for key in varied if key.startswith("software.") or any(key not in config for _, config in runs)]
    base = {key: value for key, value in runs[0][1].items() if key not in optional}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*runs[0][0], *varied])
    for measured, config in runs:
        writer.writerow([*measured.values(), *(cell(config.get(key)) for key in varied)])
    (HERE.parent / "data/megatron-ci.csv").write_text(text.getvalue())
    (HERE.parent / "megatron-ci.yaml").write_text(
        "# What rows of data/megatron-ci.csv share, made by megatron_ci/make.py.\n"
        + yaml.safe_dump(nested(base), sort_keys=False, default_flow_style=None, width=118))
    print(f"{len(runs)} of {len(rows)} rows", *(f"{count} {what}" for what, count in counts.most_common()), sep="\n",
          file=sys.stderr)


if __name__ == "__main__":
    main()
