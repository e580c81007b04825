"""Random run files: every schedule, layout, recompute policy, routing and allocator, on several machines and stacks."""

import models
from shapes import Shape

MODULES = ["core_attention", "mlp", "moe", "moe_act", "shared_experts", "layernorm", "mla_up_projection"]
ALLOCATOR_SETTINGS = ["expandable_segments:True", "max_split_size_mb:64", "roundup_power2_divisions:4",
                      "garbage_collection_threshold:0.6,per_process_memory_fraction:0.5", "backend:cudaMallocAsync"]


def policy_of(rng, layers_of_chunk):
    kind = rng.random()
    if kind < 0.15:
        return rng.choice(["none", "selective", "full"])
    if kind < 0.6:
        policy = {"granularity": "selective"}
        if rng.random() < 0.8:
            policy["modules"] = rng.sample(MODULES[:6], rng.choice([1, 1, 2, 3]))
    else:
        policy = {"granularity": rng.choice(["full", "full", "full", "none"])}
        if policy["granularity"] == "full":
            policy["method"] = rng.choice(["uniform", "block"])
            policy["layers"] = rng.randint(1, max(1, min(3, layers_of_chunk)))
    if rng.random() < 0.2:
        policy["store_microbatches"] = rng.choice(["auto", 1, 2, 3])
    if rng.random() < 0.1:
        policy["early"] = rng.choice(["no", "bubble"])
    if rng.random() < 0.15:
        policy["for_weights"] = rng.choice(["keep", "again"])
    return policy


def recompute_of(rng, run, layers_of_chunk):
    parallel = run["parallel"]

    def one():
        policy = policy_of(rng, layers_of_chunk)
        if isinstance(policy, str):
            return policy
        has_shards = policy["granularity"] == "full" and parallel["tensor"] > 1 and not parallel["sequence"]
        if has_shards and rng.random() < 0.5:
            policy["sharded_checkpoints"] = rng.random() < 0.7
        if "latent_attention" in run["model"] and "modules" in policy and rng.random() < 0.5:
            policy["modules"] = sorted({*policy["modules"], "mla_up_projection"})
        if run["schedule"].get("p2p", "blocking") == "blocking" and policy.get("early") == "bubble":
            policy.pop("early")
        return policy

    if rng.random() < 0.2 and parallel["pipeline"] > 1:
        return {"per_stage": [one() for _ in range(parallel["pipeline"])]}
    return one()


def layout_of(rng, shape, layers):
    """A section `layout` for this number of layers, or None for even."""
    parts = shape.parts()
    if layers % parts != 0:
        counts = [layers // parts] * parts
        for i in rng.sample(range(parts), layers % parts):
            counts[i] += 1
        return counts
    if rng.random() < 0.1:
        return "even"
    if rng.random() < 0.25 and shape.pipeline > 1:
        if rng.random() < 0.5 and shape.parts() == shape.pipeline:
            counts = [layers // parts] * parts
            give, take = rng.sample(range(parts), 2)
            counts[give] -= 1
            counts[take] += 1
            return counts
        first = layers // shape.pipeline - shape.interleave
        if shape.pipeline > 2 and first > 0:
            return {"first": first, "last": rng.choice([first, layers // shape.pipeline + shape.interleave])}
    return None


def add_context(rng, run):
    """Splits the sequence, and makes the model one that allows it."""
    model, parallel = run["model"], run["parallel"]
    parallel["context"] = context = rng.choice([2, 2, 4])
    method = rng.choice(["ring", "all_gather", "ulysses", "contiguous_ring", "levels", None])
    if method == "levels":
        parallel["context"] = 4
        method = {"levels": [2, 2], "methods": ["ulysses", "ring"]}
    if method is not None:
        parallel["context_method"] = method
    model.update(attention="flash", attention_dropout=0)
    model.pop("sinks", None)
    if method not in ("all_gather", "ulysses"):
        model.pop("window", None)
    if method == "ulysses" or isinstance(method, dict):  # heads are dealt out to ranks
        model.pop("kv_heads", None)
        parallel["tensor"] = min(parallel["tensor"], max(1, model["heads"] // (4 * context)))


def counts_file(rng, run, path):
    """Writes a routing file: rows of each expert in every sparse layer, some microbatches apart."""
    model, experts = run["model"], run["model"]["experts"]
    tokens = model["sequence"] * run["batch"]["micro"]
    microbatches = run["batch"]["global"] // run["batch"]["micro"]
    lines = ["layer,microbatch,expert,rows"]
    for layer in range(experts.get("first_dense", 0), model["layers"]):
        if (layer - experts.get("first_dense", 0)) % experts.get("every", 1) != experts.get("offset", 0):
            continue
        for microbatch in ["", *rng.sample(range(microbatches), min(microbatches, rng.choice([0, 1])))]:
            rows = [tokens * experts["per_token"] // experts["count"]] * experts["count"]
            for _ in range(experts["count"]):
                give, take = rng.sample(range(experts["count"]), 2)
                moved = rng.randint(0, min(rows[give], tokens - rows[take]))
                rows[give] -= moved
                rows[take] += moved
            lines += [f"{layer},{microbatch},{expert},{count}" for expert, count in enumerate(rows)]
    path.write_text("\n".join(lines) + "\n")
    return path.name


def add_experts(rng, run, counts):
    parallel, experts = run["parallel"], run["model"]["experts"]
    parallel["sequence"] = parallel["tensor"] > 1 or parallel["sequence"]
    ranks = parallel["tensor"] * parallel["data"] * parallel.get("context", 1)
    expert = rng.choice([e for e in (1, 2, 4, 8) if ranks % e == 0 and experts["count"] % e == 0])
    parallel["expert"] = expert
    if not experts.get("biases") and rng.random() < 0.3:
        parallel["expert_tensor"] = rng.choice([e for e in (1, 2, 4) if ranks // expert % e == 0])
    if rng.random() < 0.5:
        run["dispatch"] = rng.choice(["alltoall", "allgather", "deepep"])
    schedule = run["schedule"]["kind"]
    is_paired = schedule == "interleaved" or schedule == "1f1b" and parallel["pipeline"] == 1
    if rng.random() < 0.5 and is_paired:
        parallel["expert_overlap"] = expert > 1
        run["schedule"]["p2p"] = "overlapped"
    if rng.random() < 0.2 and not parallel.get("expert_overlap"):
        parallel["shared_expert_overlap"] = experts.get("shared_ffn_hidden", 0) > 0
        run["dispatch"] = "alltoall"
    kind = rng.random()
    if kind < 0.15:
        run["routing"] = {"capacity": rng.choice([1.0, 1.25, 1.5])}
        for key, values in {"pad": [True, False], "drop": ["probabilities", "position"],
                            "scope": ["rank", "microbatch"]}.items():
            if rng.random() < 0.6:
                run["routing"][key] = rng.choice(values)
    elif kind < 0.25:
        run["routing"] = {"factor": min(1.3, expert, experts["count"] / experts["per_token"])}
    elif kind < 0.4 and "pattern" not in run["model"]:
        run["routing"] = {"file": counts_file(rng, run, counts)}
    elif kind < 0.55:
        run["routing"] = "natural"
    elif kind < 0.65:
        run["routing"] = "balanced"


def memory_of(rng, precision, small):
    memory = {}
    for key, values in {"output_deallocation": [True, False], "distributed_optimizer": [True, True, False],
                        "allocator": ["pytorch", "cuda_async", "arena"], "allocator_settings": ALLOCATOR_SETTINGS,
                        "empty_cache": ["never", "before_step", "around_step"], "reserve": ["1 GiB", "3 GiB"]}.items():
        if rng.random() < 0.3:
            memory[key] = rng.choice(values)
    if precision == "bf16" and not small:  # the executor has fp32 alone
        for key in ("gradient_dtype", "moments_dtype"):
            if rng.random() < 0.3:
                memory[key] = rng.choice(["fp32", "bf16"])
    return memory


def system_of(rng, configs):
    path = str(rng.choice(configs["systems"]))
    if rng.random() < 0.15:
        return {"base": path, "network": {"topology": {"nodes_per_unit": 4, "oversubscription": 3}}}
    return path


def software_of(rng, configs):
    path = str(rng.choice(configs["software"]))
    return {"base": path, "factor": 1.1} if rng.random() < 0.1 else path


def training_of(rng):
    training = {"seed": rng.randint(1, 99), "init_std": 0.3}
    for key, values in {"learning_rate": [0.001], "beta1": [0.8], "beta2": [0.9], "epsilon": [1e-6],
                        "weight_decay": [0.0, 0.05], "clip": [0, 0.1], "loss_scale": [1024.0]}.items():
        if rng.random() < 0.3:
            training[key] = rng.choice(values)
    return training


def random_run(rng, configs, path, small=False):
    """A run file to be written at `path`, beside which a routing file may be written. Not all are legal."""
    model = models.random_model(rng, small)
    shape = Shape(rng, configs["orders"], small)
    layers = shape.parts() * rng.choice([1, 2] if small else [1, 2, 2, 3, 4])
    if rng.random() < 0.12:
        layers += rng.randint(1, shape.parts())
    model["layers"] = layers
    most_ranks = 8 if small else 1 << 20
    tensor = rng.choice([t for t in (1, 1, 2, 4, 8) if model["heads"] % t == 0 and t * shape.pipeline <= most_ranks])
    if model.get("qk_norm") == "full":
        tensor = 1
    data = rng.choice([d for d in (1, 1, 2, 3, 4, 8) if d * tensor * shape.pipeline <= most_ranks])
    micro = rng.choice([1, 1, 2] if small else [1, 1, 2, 4])
    parallel = {"tensor": tensor, "pipeline": shape.pipeline, "data": data, "sequence": rng.random() < 0.5}
    if shape.interleave > 1:
        parallel["interleave"] = shape.interleave
    run = {"model": model, "system": system_of(rng, configs), "parallel": parallel, "schedule": shape.schedule,
           "batch": {"global": shape.microbatches * micro * data, "micro": micro}}
    if rng.random() < 0.6:
        run["software"] = software_of(rng, configs)
    copies = shape.has_copies()
    if copies or rng.random() < 0.4:
        parallel["overlap_gradients"] = not copies and rng.random() < 0.7
        if parallel["overlap_gradients"] and rng.random() < 0.5:
            parallel["gradient_bucket"] = rng.choice([0, 1000 if small else 5_000_000])
    if rng.random() < 0.2 and data * tensor * shape.pipeline * 4 <= most_ranks:
        add_context(rng, run)
    if "experts" in model:
        add_experts(rng, run, path.with_suffix(".csv"))
    elif rng.random() < 0.1:
        run["routing"] = "balanced"
    layout = layout_of(rng, shape, layers)
    if layout is not None:
        run["layout"] = layout
    if parallel.get("expert_overlap"):
        run["recompute"] = rng.choice(["none", "selective"])  # it refuses what runs the exchange of tokens again
    else:
        run["recompute"] = recompute_of(rng, run, layers // shape.parts())
    run["memory"] = memory_of(rng, model["precision"], small)
    if small or rng.random() < 0.05:
        run["training"] = training_of(rng)
    return run
