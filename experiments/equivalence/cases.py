"""The commands that are compared beside `simulate`, by kind."""

import itertools
import json
import subprocess

from comparison import Case

SCHEDULES = {  # name: the sizes and options to try
    "gpipe": [["-p", 4, "-n", 6], ["-p", 3, "-n", 3, "--p2p", "overlapped", "--transfer", 0.5]],
    "1f1b": [["-p", 4, "-n", 6], ["-p", 4, "-n", 9, "--p2p", "overlapped", "--transfer", 0.25]],
    "interleaved": [["-p", 4, "-n", 8, "-m", 3], ["-p", 3, "-n", 10, "-m", 2, "--group", 5, "--p2p", "overlapped"],
                    ["-p", 4, "-n", 8, "-m", 2, "--expert-overlap"]],
    "zb_h1": [["-p", 4, "-n", 8], ["-p", 3, "-n", 5, "--fuse-adjacent", "false"]],
    "zb_h2": [["-p", 4, "-n", 9], ["-p", 2, "-n", 2]],
    "zb_auto": [["-p", 4, "-n", 8], ["-p", 4, "-n", 8, "--memory-limit", 7, "--memory", "1,-0.4,-0.6"]],
    "interleaved_zb": [["-p", 4, "-n", 8, "-m", 2]],
    "zbv": [["-p", 4, "-n", 8], ["-p", 4, "-n", 6, "--variant", "auto", "--memory-limit", 8]],
    "v_half": [["-p", 4, "-n", 8]],
    "v_min": [["-p", 6, "-n", 12]],
    "v_auto": [["-p", 4, "-n", 8, "--memory-limit", 6]],
    "1f1b_v": [["-p", 4, "-n", 8]],
    "dualpipev": [["-p", 4, "-n", 10], ["-p", 4, "-n", 7]],
    "dualpipe": [["-p", 4, "-n", 10], ["-p", 3, "-n", 8]],
    "group_interleaved": [["-p", 4, "-n", 8, "-m", 2, "--group", 4],
                          ["-p", 4, "-n", 8, "-m", 2, "--group", 8, "--recompute-chunks", 1]],
    "searched": [["-p", 3, "-n", 5, "--iterations", 2000, "--seconds", 600, "--memory-limit", 3]],
}
COSTS = [[], ["--forward", 1.1, "--input-gradient", 1.3, "--weight-gradient", 0.7]]
# Flags of the scripts that cannot be represented.
IGNORED = ["embed-layernorm", "position-embedding-type", "fp8-format", "cross-entropy-loss-fusion", "fp8-param-gather",
           "grad-reduce-in-bf16", "overlap-param-gather"]


def schedules(orders):
    cases = []
    for kind, sizes in SCHEDULES.items():
        for (i, size), (j, costs) in itertools.product(enumerate(sizes), enumerate(COSTS)):
            command = ["schedule", "--schedule", kind, *size, *costs]
            cases.append(Case("schedule", f"{kind}-{i}-{j}", [*command, "--json"]))
            if j == 0:
                cases.append(Case("schedule", f"{kind}-{i}-drawn", command))
    for i, order in enumerate(orders):
        command = ["schedule", "--schedule", "order", "-p", order["pipeline"], "-n", order["microbatches"]]
        cases.append(Case("schedule", f"order-{i}", [*command, "--order", order["file"], "--json"]))
    return cases


def write_orders(build, folder):
    """Files with the orders of some schedules, as the base prints them."""
    folder.mkdir(parents=True, exist_ok=True)
    orders = []
    for kind, stages, microbatches in [("zb_h1", 2, 4), ("zbv", 2, 4), ("v_half", 3, 6), ("dualpipe", 2, 4),
                                       ("zb_auto", 3, 4), ("1f1b", 2, 2)]:
        path = folder / f"{kind}.json"
        command = ["schedule", "--schedule", kind, "-p", str(stages), "-n", str(microbatches), "--json"]
        done = subprocess.run([build.program("stagecraft"), *command], check=True, capture_output=True, text=True)
        path.write_text(done.stdout)
        document = json.loads(path.read_text())
        placement = document["placement"]
        orders.append({"file": str(path), "pipeline": stages, "microbatches": microbatches, "placement": placement,
                       "orders": document["orders"], "chunks": 1 if placement == "loop" else 2})
    return orders


def plans(configs, quick):
    """Searches of different kinds; each on one thread, so that what was dismissed does not depend on timing."""
    systems = {path.stem: str(path) for path in configs["systems"]}
    searches = {
        "175b": ("gpt3-175b", "selene-a100", 64, 64, []),
        "22b-orders": ("gpt-22b", "selene-a100", 16, 16,
                       ["--fix", "schedule=zb_h1,zbv,1f1b", "--fix", "tensor=2,4", "--top", 20]),
        "8b-operation": ("llama3-8b", "dgx-h100", 16, 128,
                         ["--price", "2.5/gpu-hour", "--power", "850W", "--tokens", "300e9"]),
        "70b-launchable": ("llama2-70b", "dgx-h100", 32, 64,
                           ["--launchable", "megatron-core", "--software", "megatron-core", "-o", "best.yaml"]),
        "22b-2022": ("gpt-22b", "selene-a100", 8, 8,
                     ["--launchable", "megatron-2022", "-o", "best.yaml", "--exhaustive"]),
        "128k-context": ("llama3.1-8b-128k", "h200", 32, 32, ["--fix", "pipeline=1,2", "--margin", "10%"]),
        "mixtral": ("mixtral-8x7b", "b200-hgx", 16, 64,
                    ["--fix", "pipeline=1,2", "--fix", "tensor=1,2,4", "-o", "best.yaml"]),
        "latent": ("deepseek-v3", "h200", 256, 512,
                   ["--fix", "pipeline=16", "--fix", "tensor=1,2", "--set", "model.predicted_tokens=1"]),
        "nothing-fits": ("mtnlg-530b", "a100-pcie-40", 16, 16, []),
        "safety": ("llama3-8b", "aws-p5", 8, 64, ["--software", "nanotron", "--safety", "0.9"]),
    }
    names = ["22b-orders", "22b-2022"] if quick else list(searches)
    cases = []
    for name in names:
        model, system, gpus, batch, more = searches[name]
        path = configs["root"] / "models" / f"{model}.yaml"
        size = ["--system", systems[system], "--gpus", gpus, "--global-batch", batch]
        cases.append(Case("plan", name, ["plan", path, *size, *more, "--jobs", 1, "--json"]))
    return cases


def sweeps(configs, folder, quick):
    """The shipped sweep of strategies, and a smaller one of layouts than the shipped one."""
    small = folder / "small-sweep.yaml"
    small.write_text(f"""base:
  model: {configs["root"]}/models/gpt-22b.yaml
  system: {configs["root"]}/systems/dgx-h100.yaml
  software: {configs["root"]}/software/megatron-core.yaml
  batch: {{global: 32, micro: 1}}
cases:
  strategy:
    full: {{recompute: full}}
    window: {{"recompute.granularity": selective, "recompute.store_microbatches": auto}}
values:
  schedule: [1f1b, zb_h1, interleaved]
  parallel.interleave: [1, 2]
  parallel.tensor: [1, 8]
  parallel.pipeline: [2, 3, 4]
  memory.distributed_optimizer: [true, false]
where: [(schedule == interleaved) == (parallel.interleave > 1)]
""")
    files = {"layouts": small, "strategies": configs["root"] / "sweeps" / "strategies.yaml"}
    return [Case("sweep", name, ["sweep", path, "-o", "r.h5", "--csv", "r.csv", "--jobs", 1, "--json"])
            for name, path in files.items() if not quick or name == "layouts"]


def imports(source, configs):
    """Launch scripts with several numbers of ranks, a few of which each of them can have, and models."""
    tests = source / "tests/libsim/import"
    system = configs["root"] / "systems/dgx-h100.yaml"
    ignored = [word for name in IGNORED for word in ("--ignore", name)]
    cases = []
    for path in sorted((tests / "scripts").iterdir()):
        variants = {"alone": [], "current": ["--megatron", "current", "--world-size", 64, "--system", system]}
        for ranks in (8, 96, 128, 1536):
            variants[str(ranks)] = ["--world-size", ranks, "--variable", "NNODES=8", *ignored]
        flags = ["--", "--vocab-size", 43176] if path.stem.startswith("llama2") else []
        for name, more in variants.items():
            command = ["import", "megatron", "--script", path, *more, "-o", "run.yaml", *flags]
            cases.append(Case("import", f"{path.stem}-{name}", command))
    for path in sorted((tests / "configs").iterdir()):
        for name, more in [("alone", []), ("short", ["-s", 512, "--attention", "unfused", "--precision", "fp16"])]:
            command = ["import", "huggingface", path, *more, "-o", "model.yaml"]
            cases.append(Case("import", f"{path.stem}-{name}", command))
    return cases


def exports(trace):
    """`trace` is the base's, so that the new program reads what the old one wrote."""
    forms = {"chrome": ["chrome", "-o", "t.json"], "csv": ["csv", "-o", "t.csv"],
             "csv-memory": ["csv", "--memory", "-o", "t.csv"],
             "memory-snapshot": ["memory-snapshot", "-o", "t.pickle"],
             "chakra": ["chakra", "-o", "t"], "kineto": ["kineto", "-o", "t"]}
    cases = [Case("export", name, ["export", trace, "--format", *form]) for name, form in forms.items()]
    return [*cases, Case("export", "compare", ["compare", trace, trace, "--json"])]


def shipped(configs, source):
    """What is shipped, by name: each program reads its own."""
    cases = [Case("shipped", f"{kind}-{path.stem}", [kind, path.stem, "--json"])
             for kind, group in (("system", "systems"), ("software", "software")) for path in configs[group]]
    for path in sorted([*(source / "configs/paper").glob("*.yaml"), *(source / "configs/examples").glob("*.yaml")]):
        cases.append(Case("shipped", f"run-{path.stem}", ["simulate", path.stem, "--json"]))
    one_rank = [word for key in ("tensor", "pipeline", "data") for word in ("--set", f"parallel.{key}=1")]
    for path in sorted((source / "configs/models").glob("*.yaml")):
        command = ["layer", "eight", "--set", f"model={path.stem}", *one_rank, "--json"]
        cases.append(Case("shipped", f"model-{path.stem}", command))
    return cases


def validations(source, quick):
    folder = source / "experiments/validation"
    cases = []
    for name in ["narayanan-2021"] if quick else ["narayanan-2021", "published-context", "published-moe"]:
        more = ["--base", folder / f"{name}.yaml", "--by", "parallel.tensor", "--jobs", 1]
        cases.append(Case("validate", name, ["validate", folder / f"data/{name}.csv", *more, "--json"]))
    return cases


def reproductions(quick):
    names = ["table2", "table4", "table5"] if quick else ["all"]
    return [Case("reproduce", name, ["reproduce", name, "--json"]) for name in names]
