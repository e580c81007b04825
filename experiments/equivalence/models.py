"""Random models: every key of section `model` and every word that it accepts comes up."""

WORDS = {
    "activation": ["gelu", "swiglu", "relu", "geglu", "swiglu_clamped"],
    "norm": ["layernorm", "rmsnorm"],
    "tied_embeddings": [True, False],
    "residual": ["sequential", "parallel", "parallel_one_norm"],
    "dropout": [0, 0.1, 0.2],
    "attention_dropout": [0, 0.1],
    "biases": [True, False],
    "qkv_bias": [True, False],
    "attention": ["unfused", "flash"],
    "softmax_dropout": ["separate", "fused"],
    "dropout_mask": ["stored", "regenerated"],
    "causal_mask": ["per_microbatch", "none"],
    "norm_epsilon": [1e-6],
    "attention_softcap": ["off", 20],
    "logit_softcap": ["off", 30],
}


def sizes(rng, small):
    """Heads, width and vocabulary; the executor takes small ones."""
    heads = rng.choice([4, 8] if small else [4, 8, 12, 16, 24, 32])
    width = 4 if small else rng.choice([32, 64, 80, 128])
    model = {
        "hidden": heads * width,
        "heads": heads,
        "sequence": rng.choice([8, 16] if small else [256, 512, 1024, 2048]),
        "vocabulary": rng.choice([19, 32] if small else [1000, 32000, 50257, 51200]),
        "precision": rng.choice(["fp16", "bf16", "bf16", "fp32", "fp64"]),
    }
    if small or rng.random() < 0.3:
        model["vocabulary_multiple"] = rng.choice([2, 4] if small else [1, 64, 128])
    if rng.random() < 0.3:
        model["kv_heads"] = rng.choice([k for k in (1, 2, 4, 8) if heads % k == 0])
    if rng.random() < 0.15:
        model["head_dim"] = rng.choice([4, 8] if small else [64, 96, 128])
    if rng.random() < 0.4:
        model["ffn_hidden"] = rng.choice([2, 3, 4]) * model["hidden"]
    return model


def experts_of(rng, hidden, small):
    count = rng.choice([4, 8] if small else [8, 16, 32])
    per_token = rng.choice([1, 2, 4])
    experts = {"count": count, "per_token": per_token, "ffn_hidden": rng.choice([1, 2]) * hidden}
    router = {"precision": rng.choice(["fp32", "model"]), "normalise": rng.random() < 0.7}
    if rng.random() < 0.4:
        experts["shared_ffn_hidden"] = hidden
        experts["shared_gate"] = rng.random() < 0.5
    for key, values in {"first_dense": [0, 1], "every": [1, 2], "biases": [True, False],
                        "probabilities_on": ["output", "input"]}.items():
        if rng.random() < 0.3:
            experts[key] = rng.choice(values)
    if experts.get("every") == 2:
        experts["offset"] = rng.choice([0, 1])
    for key, values in {"score": ["softmax", "sigmoid"], "order": ["after", "before"], "bias": [True, False],
                        "scaling": [1.0, 2.5]}.items():
        if rng.random() < 0.4:
            router[key] = rng.choice(values)
    if rng.random() < 0.3:
        router["loss"] = rng.choice(["none", "auxiliary", "sequence_auxiliary", "global_auxiliary"])
        router["loss_coefficient"] = 0.01
    if rng.random() < 0.2:
        router["z_loss"] = 0.001
    if rng.random() < 0.2 and per_token > 1:
        router["groups"], router["groups_per_token"] = 4, 2
    experts["router"] = router
    return experts


def pattern_of(rng, model):
    """Two kinds of layers, each with a few keys of its own."""
    changes = {
        "activation": WORDS["activation"],
        "norm": WORDS["norm"],
        "ffn_hidden": [2 * model["hidden"], 3 * model["hidden"]],
        "biases": WORDS["biases"],
        "attention_softcap": WORDS["attention_softcap"],
        "window": ["off", {"size": model["sequence"] // 4}],
    }
    if "experts" in model:
        changes["experts"] = ["none", model["experts"]]
    kinds = []
    for _ in range(2):
        keys = rng.sample(sorted(changes), 2)
        kinds.append({"kind": {key: rng.choice(changes[key]) for key in keys}, "count": rng.choice([1, 1, 2])})
    return kinds


def random_model(rng, small=False):
    """A model without `layers`, which follow from the layout. Most are legal with some layout."""
    model = sizes(rng, small)
    for key, values in WORDS.items():
        if rng.random() < (0.15 if key.endswith("softcap") else 0.4):
            model[key] = rng.choice(values)
    model["positions"] = rng.choice(["learned", "rotary"])
    if model["positions"] == "rotary":
        model["rotary_base"] = rng.choice([10000.0, 500000.0])
    elif rng.random() < 0.2:
        model["position_rows"] = 2 * model["sequence"]
    if rng.random() < 0.15:
        model["norms"] = rng.choice(["pre", "post", "both"])
        model["residual"] = "sequential"
    if rng.random() < 0.15:
        model["qk_norm"] = rng.choice(["none", "head", "full"])
    if rng.random() < 0.15:
        model["window"] = {"size": model["sequence"] // 4}
        if rng.random() < 0.6:
            model["window"].update(period=2, full=[rng.choice([0, 1])])
    if rng.random() < 0.1:
        model["sinks"] = rng.random() < 0.8
        model["attention"] = "flash"
    if rng.random() < 0.12:
        model["latent_attention"] = {
            "query_rank": rng.choice([0, model["hidden"] // 2]),
            "key_rank": model["hidden"] // 4,
            "nope_dim": 4 if small else 128,
            "rope_dim": 2 if small else 64,
            "value_dim": 4 if small else 128,
        }
        model.update(positions="rotary", biases=False)
        for key in ("kv_heads", "head_dim", "position_rows", "qkv_bias", "qk_norm"):
            model.pop(key, None)
    if rng.random() < 0.1:
        model["predicted_tokens"] = rng.choice([1, 2])
        model["positions"] = "rotary"
        model.pop("position_rows", None)
    if rng.random() < 0.3:
        model["experts"] = experts_of(rng, model["hidden"], small)
        model.pop("norms", None)
        if rng.random() < 0.85:
            model.update(residual="sequential")
    if rng.random() < 0.15:
        model["pattern"] = pattern_of(rng, model)
    return model
