#!/usr/bin/env python3
"""Holds two builds against each other: the same random configurations must give the same numbers.

usage: experiments/equivalence/run.py --old BUILD --new BUILD [-n 1000] [--seed 1] [--traces 60] [--plans 12]

BUILD is a build folder (the program is BUILD/apps/stagecraft/stagecraft). For each configuration `simulate --json`
must be equal in every number (fingerprints and schema versions aside); for some of them op-detail traces must be
equal in every row, and `plan --json` must give the same answers. Exits 1 and names what differs. It needs h5py.
"""

import argparse
import concurrent.futures
import json
import pathlib
import random
import subprocess
import sys
import tempfile


ALLOCATOR_SETTINGS = ["expandable_segments:True", "max_split_size_mb:64", "roundup_power2_divisions:4",
                      "garbage_collection_threshold:0.6,per_process_memory_fraction:0.5", "backend:cudaMallocAsync"]


def random_model(rng):
    head_dim = rng.choice([32, 64, 80, 128])
    heads = rng.choice([4, 8, 12, 16, 24, 32])
    model = {
        "layers": rng.choice([4, 6, 8, 12, 16, 24, 48]),
        "hidden": heads * head_dim,
        "heads": heads,
        "sequence": rng.choice([256, 512, 1024, 2048]),
        "vocabulary": rng.choice([1000, 32000, 50257, 51200]),
        "precision": rng.choice(["fp16", "bf16", "bf16", "fp16", "fp32"]),
    }
    if rng.random() < 0.35:
        model["kv_heads"] = rng.choice([k for k in (1, 2, 4, 8, 16) if heads % k == 0])
    if rng.random() < 0.2:
        model["head_dim"] = rng.choice([64, 96, 128])
    if rng.random() < 0.4:
        model["ffn_hidden"] = rng.choice([2, 3, 4]) * model["hidden"]
    for key, values in {
        "activation": ["gelu", "swiglu", "relu", "geglu"],
        "norm": ["layernorm", "rmsnorm"],
        "positions": ["learned", "rotary"],
        "tied_embeddings": [True, False],
        "residual": ["sequential", "parallel", "parallel_one_norm"],
        "dropout": [0.1, 0, 0.2],
        "attention_dropout": [0, 0.1],
        "biases": [True, False],
        "qkv_bias": [True],
        "attention": ["unfused", "flash"],
        "softmax_dropout": ["separate", "fused"],
        "dropout_mask": ["stored", "regenerated"],
        "causal_mask": ["per_microbatch", "none"],
        "vocabulary_multiple": [1, 64, 128],
        "norm_epsilon": [1e-6],
    }.items():
        if rng.random() < 0.4:
            model[key] = rng.choice(values)
    return model


def random_policy(rng, sequence_parallel, layers_of_chunk):
    kind = rng.random()
    if kind < 0.2:
        return "none"
    if kind < 0.4:
        policy = {"granularity": "selective"}
        modules = [m for m in ("core_attention", "mlp", "layernorm") if rng.random() < 0.5]
        if modules:
            policy["modules"] = modules
    elif kind < 0.85:
        policy = {"granularity": "full", "method": rng.choice(["uniform", "block"]),
                  "layers": rng.randint(1, max(1, min(4, layers_of_chunk)))}
        if not sequence_parallel and rng.random() < 0.4:
            policy["sharded_checkpoints"] = True
    else:
        policy = {"granularity": rng.choice(["selective", "full"])}
    if rng.random() < 0.25:
        policy["store_microbatches"] = rng.choice(["auto", 1, 2, 3])
    return policy


def random_run(rng, systems):
    model = random_model(rng)
    tensor = rng.choice([t for t in (1, 2, 4, 8) if model["heads"] % t == 0])
    pipeline = rng.choice([p for p in (1, 2, 3, 4, 8) if model["layers"] >= p])
    interleave = 1
    kind = rng.choice(["1f1b", "gpipe", "interleaved", "1f1b", "interleaved", "zb_h1", "zbv", "v_half"])
    if kind == "interleaved":
        pipeline = max(2, pipeline)
        interleave = rng.choice([1, 2, 3])
    if kind in ("zbv", "v_half"):
        pipeline = max(2, pipeline)
        interleave = 2
    data = rng.choice([1, 1, 2, 3, 4, 8])
    micro = rng.choice([1, 1, 2, 4])
    microbatches = rng.choice([1, 2, 4, 7, 8, 12, 16, 32])
    if kind == "interleaved":
        microbatches = max(microbatches, pipeline)
        if rng.random() < 0.6:
            microbatches -= microbatches % pipeline
    parallel = {"tensor": tensor, "pipeline": pipeline, "data": data,
                "sequence": rng.random() < 0.5, "overlap_gradients": rng.random() < 0.4}
    if interleave > 1:
        parallel["interleave"] = interleave
    schedule = {"kind": kind, "scatter_gather": rng.random() < 0.7}
    if kind in ("1f1b", "gpipe", "interleaved"):
        schedule["p2p"] = rng.choice(["blocking", "overlapped"])
    if kind == "interleaved" and rng.random() < 0.5:
        groups = [g for g in range(pipeline, microbatches + 1) if microbatches % g == 0 or microbatches % g >= pipeline]
        schedule["group"] = rng.choice(groups)
    stages = pipeline * interleave
    run = {"model": model, "system": rng.choice(systems), "parallel": parallel,
           "batch": {"global": microbatches * micro * data, "micro": micro}, "schedule": schedule}
    per_chunk = max(1, model["layers"] // stages)
    if model["layers"] % stages != 0:
        counts = [model["layers"] // stages] * stages
        for i in rng.sample(range(stages), model["layers"] % stages):
            counts[i] += 1
        run["layout"] = counts
    elif rng.random() < 0.2 and pipeline > 2 and interleave == 1:
        middle = pipeline - 2
        first = rng.randint(1, max(1, model["layers"] // pipeline))
        rest = model["layers"] - first
        last = next((k for k in range(1, rest) if (rest - k) % middle == 0 and (rest - k) > 0), None)
        if last:
            run["layout"] = {"first": first, "last": last}
    sequence_parallel = parallel["sequence"] and tensor > 1
    if rng.random() < 0.2 and pipeline > 1:
        policies = []
        for _ in range(pipeline):
            policy = random_policy(rng, sequence_parallel, per_chunk)
            policies.append(policy)
        run["recompute"] = {"per_stage": policies}
    else:
        run["recompute"] = random_policy(rng, sequence_parallel, per_chunk)
    memory = {}
    if rng.random() < 0.3:
        memory["output_deallocation"] = False
    if rng.random() < 0.4:
        memory["distributed_optimizer"] = True
    if rng.random() < 0.5:
        memory["allocator_settings"] = rng.choice(ALLOCATOR_SETTINGS)
    if rng.random() < 0.2:
        memory["empty_cache"] = rng.choice(["before_step", "around_step"])
    if memory:
        run["memory"] = memory
    return run


def numbers(value, path=""):
    """Every leaf of a JSON document but fingerprints and schema versions."""
    if isinstance(value, dict):
        for key, below in value.items():
            if key in ("plan", "schema", "config", "seconds", "warnings", "megatron_flags", "megatron_gaps"):
                continue
            yield from numbers(below, f"{path}.{key}")
    elif isinstance(value, list):
        for i, below in enumerate(value):
            yield from numbers(below, f"{path}[{i}]")
    else:
        yield path, value


def run(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def difference(old, new):
    """The first leaf that is not the same, or None. New fields are allowed."""
    old, new = dict(numbers(old)), dict(numbers(new))
    for path, value in old.items():
        if path not in new:
            return f"{path}: {value!r} against nothing"
        if new[path] != value:
            return f"{path}: {value!r} against {new[path]!r}"
    return None


def compare_simulation(programs, config):
    outcomes = [run(program, "simulate", config, "--json") for program in programs]
    if outcomes[0][0] != outcomes[1][0]:
        return f"exit codes {outcomes[0][0]} and {outcomes[1][0]}: {outcomes[1][2][:300]}", False
    if outcomes[0][0] != 0:
        return None, False
    return difference(json.loads(outcomes[0][1]), json.loads(outcomes[1][1])), True


def trace_rows(path):
    import h5py
    rows = {}
    with h5py.File(path) as file:
        names = {key: [n.decode() for n in file[f"names/{key}"][()]] for key in file["names"]}
        for rank in file["ranks"]:
            ops = file[f"ranks/{rank}/ops"]
            for key in ops:
                values = ops[key][()].tolist()
                if key in ("op", "phase", "stream"):
                    table = names.get(key) or names.get(key + "s")
                    values = [table[v] for v in values]
                rows[f"{rank}/ops/{key}"] = values
            memory = file[f"ranks/{rank}/memory"]
            for key in memory:
                rows[f"{rank}/memory/{key}"] = memory[key][()].tolist()
    return rows


def compare_traces(programs, config, folder):
    traces = []
    for i, program in enumerate(programs):
        path = folder / f"{config.stem}-{i}.h5"
        code, _, errors = run(program, "simulate", config, "--detail", "op", "--trace", path)
        if code != 0:
            return f"trace: exit code {code}: {errors[:300]}"
        traces.append(trace_rows(path))
        path.unlink()
    old, new = traces
    for key, values in old.items():
        if key not in new:
            return f"trace: {key} is missing"
        if values != new[key]:
            place = next((i for i, (a, b) in enumerate(zip(values, new[key])) if a != b), min(len(values), len(new[key])))
            return (f"trace: {key} differs at row {place} of {len(values)} and {len(new[key])}: "
                    f"{values[place:place + 1]} against {new[key][place:place + 1]}")
    return None


def compare_plans(programs, arguments):
    outcomes = [run(program, "plan", *arguments, "--json") for program in programs]
    if outcomes[0][0] != outcomes[1][0]:
        return f"plan: exit codes {outcomes[0][0]} and {outcomes[1][0]}: {outcomes[1][2][:300]}"
    if outcomes[0][0] != 0:
        return f"plan: both exit with {outcomes[0][0]}: {outcomes[0][2][:300]}"
    old, new = (json.loads(outcome[1]) for outcome in outcomes)
    for document in (old, new):
        for best in document.get("best", []):
            best["layout_text"] = json.dumps(best.get("config", {}).get("parallel"), sort_keys=True)
        document.pop("plans_per_second", None)
    return difference({"best": old.get("best"), "considered": old.get("considered")},
                      {"best": new.get("best"), "considered": new.get("considered")})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--old", required=True)
    parser.add_argument("--new", required=True)
    parser.add_argument("-n", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--traces", type=int, default=60)
    parser.add_argument("--plans", type=int, default=12)
    parser.add_argument("--configs", default=None, help="folder with models/ and systems/")
    options = parser.parse_args()
    programs = [f"{build}/apps/stagecraft/stagecraft" for build in (options.old, options.new)]
    configs = pathlib.Path(options.configs or pathlib.Path(options.old).resolve().parents[1] / "configs")
    systems = [str(p) for p in sorted((configs / "systems").glob("*.yaml")) if p.stem in ("selene-a100", "dgx-h100")]
    folder = pathlib.Path(tempfile.mkdtemp(prefix="equivalence-"))
    rng = random.Random(options.seed)
    failures, accepted, refused = [], [], 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        number = 0
        while len(accepted) < options.n and number < 5 * options.n:
            batch = []
            for _ in range(min(64, options.n - len(accepted) + 8)):
                path = folder / f"run-{number:05}.json"
                path.write_text(json.dumps(random_run(rng, systems)))
                batch.append(path)
                number += 1
            for path, (problem, was_run) in zip(batch, pool.map(lambda p: compare_simulation(programs, p), batch)):
                if problem:
                    failures.append((path, problem))
                if was_run:
                    accepted.append(path)
                else:
                    refused += 1
        print(f"simulate: {len(accepted)} configurations, {refused} refused by both, {len(failures)} differences", flush=True)
        traced = accepted[:: max(1, len(accepted) // max(1, options.traces))][: options.traces] if options.traces else []
        before = len(failures)
        for path, problem in zip(traced, pool.map(lambda p: compare_traces(programs, p, folder), traced)):
            if problem:
                failures.append((path, problem))
        print(f"traces: {len(traced)}, {len(failures) - before} differences", flush=True)
    before = len(failures)
    cases = []
    models = ["gpt-22b", "gpt3-175b", "mtnlg-530b", "gpt-1t"]
    for i in range(options.plans):
        model = configs / "models" / f"{models[i % 4]}.yaml"
        gpus = {"gpt-22b": [8, 16, 32], "gpt3-175b": [64, 128, 256], "mtnlg-530b": [280, 560, 2240], "gpt-1t": [512, 1024]}[models[i % 4]]
        count = gpus[(i // 4) % len(gpus)]
        batch = {"gpt-22b": 4, "gpt3-175b": 64, "mtnlg-530b": 280, "gpt-1t": 512}[models[i % 4]] * (1 + i // 8)
        cases.append([model, "--system", systems[i % 2], "--gpus", count, "--global-batch", batch, "--top", 3])
    for case in cases:
        problem = compare_plans(programs, case)
        if problem:
            failures.append((case, problem))
    print(f"plan: {len(cases)}, {len(failures) - before} differences", flush=True)
    for where, problem in failures[:20]:
        print(f"{where}: {problem}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
