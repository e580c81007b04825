"""Trains small GPT and Llama models in PyTorch, in double, and writes what must come out as JSON files beside itself.

usage: make_reference.py [DIRECTORY]

The models are written from their definitions with torch.nn.functional; gradients are autograd's, the optimizer is
torch.optim.AdamW. Nothing is shared with stagecraft but the names and shapes of parameters and the specification of
dropout masks (Philox by counter). Before anything is written,
- Philox gives the known answers of Random123,
- the GPT without dropout gives the logits of torch.nn.TransformerEncoderLayer to 1e-12,
- the Llama gives those of transformers.LlamaForCausalLM to 1e-5 (which works in float inside).

The tests only need the files. To make them again, outside of the repository (a few GB; no GPU is used):
    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install torch numpy transformers
    /tmp/venv/bin/python tests/libexec/reference/make_reference.py
The committed files were made with Python 3.11.7, torch 2.15.0, numpy 2.4.6 and transformers 5.23.0 on x86-64; other
versions may differ in the last digits.
"""

import itertools
import json
import math
import pathlib
import sys

import numpy
import torch
import torch.nn.functional as F
import transformers

STEPS = 3

GPT = {
    "layers": 2, "hidden": 12, "heads": 4, "kv_heads": 4, "head_dim": 3, "ffn_hidden": 20, "sequence": 6,
    "vocabulary": 11, "norm": "layernorm", "norm_epsilon": 1e-5, "activation": "gelu", "positions": "learned",
    "rotary_base": 10000.0, "tied_embeddings": True, "biases": True, "dropout": 0.0,
}  # fmt: skip
# Heads are wider than h / a, base and epsilon are not the defaults: whoever mixes them up is seen.
LLAMA = {
    "layers": 2, "hidden": 12, "heads": 4, "kv_heads": 2, "head_dim": 4, "ffn_hidden": 14, "sequence": 8,
    "vocabulary": 13, "norm": "rmsnorm", "norm_epsilon": 1e-3, "activation": "swiglu", "positions": "rotary",
    "rotary_base": 100.0, "tied_embeddings": False, "biases": False, "dropout": 0.0,
}  # fmt: skip
BATCH = {"global": 4, "micro": 2}
# Softmax does not see what is added to all scores of a row, so the gradients of the biases of keys are zero but for
# rounding; of that, Adam with an epsilon of 1e-8 would make differences of 5e-11 in the parameters.
TRAINING = {
    "seed": 4711, "learning_rate": 1e-2, "beta1": 0.9, "beta2": 0.95, "epsilon": 1e-6, "weight_decay": 0.1, "clip": 0.5,
}  # fmt: skip

# Name of the file: the model, and the norm of gradients that is clipped to (0.5 is always exceeded, 1000 never).
VARIANTS = {
    "gpt": (GPT, 0.5),
    "gpt_dropout": (GPT | {"dropout": 0.2}, 0.5),
    "gpt_untied": (GPT | {"tied_embeddings": False}, 1000.0),
    "llama": (LLAMA, 1000.0),
    "llama_dropout": (LLAMA | {"dropout": 0.3}, 0.5),
}

EMBEDDING, ATTENTION, ATTENTION_OUTPUT, MLP_OUTPUT = range(4)  # sites of dropout


def philox4x32_10(counter, key):
    """Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3": [n, 4] counters to [n, 4] random words."""
    word, half = numpy.uint64(0xFFFFFFFF), numpy.uint64(32)
    c0, c1, c2, c3 = numpy.asarray(counter, dtype=numpy.uint64).T
    k0, k1 = (numpy.uint64(k) for k in key)
    for _ in range(10):
        left = numpy.uint64(0xD2511F53) * c0
        right = numpy.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = (right >> half) ^ c1 ^ k0, right & word, (left >> half) ^ c3 ^ k1, left & word
        k0, k1 = (k0 + numpy.uint64(0x9E3779B9)) & word, (k1 + numpy.uint64(0xBB67AE85)) & word
    return numpy.stack([c0, c1, c2, c3], axis=1)


def check_philox():
    """Random123 1.14, tests/kat_vectors."""
    ones = 0xFFFFFFFF
    for counter, key, answer in [
        ([0, 0, 0, 0], [0, 0], [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([ones] * 4, [ones] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        ([0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], [0xA4093822, 0x299F31D0],
         [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]),
    ]:  # fmt: skip
        assert philox4x32_10([counter], key)[0].tolist() == answer


class Dropout:
    """The dropouts of one microbatch of one step: multiplication with masks that follow from a counter."""

    def __init__(self, rate, seed, step, microbatch):
        self.rate, self.key, self.microbatch = rate, (seed, step), microbatch

    def mask(self, layer, site, shape):
        """0 or 1 / (1 - rate) for each element of a tensor, numbered with the last axis running fastest."""
        index = numpy.arange(math.prod(shape), dtype=numpy.uint64)
        block = index >> numpy.uint64(2)
        counter = numpy.empty((index.size, 4), dtype=numpy.uint64)
        counter[:, 0] = block & numpy.uint64(0xFFFFFFFF)
        counter[:, 1] = block >> numpy.uint64(32)
        counter[:, 2] = self.microbatch
        counter[:, 3] = layer << 8 | site
        words = philox4x32_10(counter, self.key)[numpy.arange(index.size), index & numpy.uint64(3)]
        kept = words >= numpy.uint64(math.floor(self.rate * 2.0**32))
        return torch.from_numpy(kept.astype(numpy.float64) / (1 - self.rate)).reshape(shape)

    def of_hidden(self, x, layer, site):
        """x is [b, s, h]; its masks are numbered (position b + sequence) h + column."""
        b, s, h = x.shape
        return x if self.rate == 0 else x * self.mask(layer, site, (s, b, h)).transpose(0, 1)

    def of_probabilities(self, x, layer):
        """x is [b, a, s, s]; its masks are numbered ((sequence a + head) s + row) s + column."""
        return x if self.rate == 0 else x * self.mask(layer, ATTENTION, tuple(x.shape))


def rotated(x, base):
    """Su et al. 2021, arXiv:2104.09864: the pair (x[i], x[i + d/2]) is a complex number that position n turns by the
    angle n base^(-2i/d). x is [b, heads, s, d]."""
    s, d = x.shape[-2:]
    angle = torch.arange(s)[:, None] * base ** (-2 * torch.arange(d // 2) / d)
    turned = torch.complex(x[..., : d // 2], x[..., d // 2 :]) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat([turned.real, turned.imag], dim=-1)


def norm(model, p, name, x):
    weight, shape = p[f"{name}.weight"], [model["hidden"]]
    if model["norm"] == "rmsnorm":
        return F.rms_norm(x, shape, weight, model["norm_epsilon"])
    return F.layer_norm(x, shape, weight, p[f"{name}.bias"], model["norm_epsilon"])


def linear(p, name, x):
    return F.linear(x, p[f"{name}.weight"], p.get(f"{name}.bias"))


def attention(model, p, layer, x, dropout):
    a, kv, d = model["heads"], model["kv_heads"], model["head_dim"]
    b, s, _ = x.shape
    q, k, v = linear(p, f"layers.{layer}.attention.qkv", x).split([a * d, kv * d, kv * d], dim=-1)
    q, k, v = (part.unflatten(-1, (-1, d)).transpose(1, 2) for part in (q, k, v))
    if model["positions"] == "rotary":
        q, k = rotated(q, model["rotary_base"]), rotated(k, model["rotary_base"])
    if dropout.rate == 0:
        context = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=a != kv)
    else:
        k, v = (part.repeat_interleave(a // kv, dim=1) for part in (k, v))
        future = torch.ones(s, s, dtype=torch.bool).triu(1)
        scores = (q @ k.transpose(-1, -2) / math.sqrt(d)).masked_fill(future, -math.inf)
        context = dropout.of_probabilities(scores.softmax(dim=-1), layer) @ v
    projected = linear(p, f"layers.{layer}.attention.projection", context.transpose(1, 2).reshape(b, s, a * d))
    return dropout.of_hidden(projected, layer, ATTENTION_OUTPUT)


def mlp(model, p, layer, x, dropout):
    up = linear(p, f"layers.{layer}.mlp.up", x)
    if model["activation"] == "swiglu":
        gate, value = up.chunk(2, dim=-1)
        active = F.silu(gate) * value
    else:
        active = F.gelu(up, approximate="tanh")
    return dropout.of_hidden(linear(p, f"layers.{layer}.mlp.down", active), layer, MLP_OUTPUT)


def logits_of(model, p, tokens, dropout):
    """[b, s, v] for tokens [b, s]."""
    x = F.embedding(tokens, p["embedding.weight"])
    if model["positions"] == "learned":
        x = x + p["positions.weight"]
    x = dropout.of_hidden(x, 0, EMBEDDING)
    for layer in range(model["layers"]):
        x = x + attention(model, p, layer, norm(model, p, f"layers.{layer}.attention_norm", x), dropout)
        x = x + mlp(model, p, layer, norm(model, p, f"layers.{layer}.mlp_norm", x), dropout)
    head = "embedding.weight" if model["tied_embeddings"] else "head.logits.weight"
    return F.linear(norm(model, p, "final_norm", x), p[head])


def shapes_of(model):
    h, d, f, v = model["hidden"], model["head_dim"], model["ffn_hidden"], model["vocabulary"]
    queries, groups = model["heads"] * d, model["kv_heads"] * d
    branches = 2 if model["activation"] == "swiglu" else 1
    linears = {
        "attention.qkv": (queries + 2 * groups, h),
        "attention.projection": (h, queries),
        "mlp.up": (branches * f, h),
        "mlp.down": (h, f),
    }
    shapes = {"embedding.weight": (v, h)}
    if model["positions"] == "learned":
        shapes["positions.weight"] = (model["sequence"], h)
    norms = ["final_norm"]
    for layer in range(model["layers"]):
        norms += [f"layers.{layer}.attention_norm", f"layers.{layer}.mlp_norm"]
        for name, shape in linears.items():
            shapes[f"layers.{layer}.{name}.weight"] = shape
            if model["biases"]:
                shapes[f"layers.{layer}.{name}.bias"] = shape[:1]
    for name in norms:
        shapes[f"{name}.weight"] = (h,)
        if model["norm"] == "layernorm":
            shapes[f"{name}.bias"] = (h,)
    if not model["tied_embeddings"]:
        shapes["head.logits.weight"] = (v, h)
    return shapes


def random_parameters(model, generator):
    """Biases and norms are random too, so that each of them matters."""
    parameters = {}
    for name, shape in shapes_of(model).items():
        values = 0.3 * torch.randn(shape, generator=generator)
        parameters[name] = values + 1 if name.endswith("norm.weight") else values
    return parameters


def check_gpt(model, p, tokens):
    """Against the Transformer layers that PyTorch comes with."""
    h, ffn = model["hidden"], model["ffn_hidden"]
    x = F.embedding(tokens, p["embedding.weight"]) + p["positions.weight"]
    causal = torch.nn.Transformer.generate_square_subsequent_mask(model["sequence"], dtype=torch.float64)
    for i in range(model["layers"]):
        layer = torch.nn.TransformerEncoderLayer(
            h, model["heads"], ffn, dropout=0.0, activation=lambda y: F.gelu(y, approximate="tanh"),
            layer_norm_eps=model["norm_epsilon"], batch_first=True, norm_first=True)  # fmt: skip
        names = {
            "self_attn.in_proj_": "attention.qkv.", "self_attn.out_proj.": "attention.projection.",
            "linear1.": "mlp.up.", "linear2.": "mlp.down.", "norm1.": "attention_norm.", "norm2.": "mlp_norm.",
        }  # fmt: skip
        layer.load_state_dict(
            {theirs + end: p[f"layers.{i}.{ours}{end}"] for theirs, ours in names.items() for end in ("weight", "bias")}
        )
        x = layer(x, src_mask=causal, is_causal=True)
    x = F.layer_norm(x, [h], p["final_norm.weight"], p["final_norm.bias"], model["norm_epsilon"])
    theirs = x @ p.get("head.logits.weight", p["embedding.weight"]).T
    torch.testing.assert_close(logits_of(model, p, tokens, Dropout(0, 0, 0, 0)), theirs, rtol=0, atol=1e-12)


def check_llama(model, p, tokens):
    """Against the implementation of Hugging Face."""
    a, kv, d = model["heads"], model["kv_heads"], model["head_dim"]
    config = transformers.LlamaConfig(
        vocab_size=model["vocabulary"], hidden_size=model["hidden"], intermediate_size=model["ffn_hidden"],
        num_hidden_layers=model["layers"], num_attention_heads=a, num_key_value_heads=kv, head_dim=d,
        rms_norm_eps=model["norm_epsilon"], attn_implementation="eager", max_position_embeddings=model["sequence"],
        rope_parameters={"rope_type": "default", "rope_theta": model["rotary_base"]})  # fmt: skip
    state = {
        "model.embed_tokens.weight": p["embedding.weight"],
        "model.norm.weight": p["final_norm.weight"],
        "lm_head.weight": p["head.logits.weight"],
    }
    for i in range(model["layers"]):
        ours, theirs = f"layers.{i}", f"model.layers.{i}"
        qkv = p[f"{ours}.attention.qkv.weight"].split([a * d, kv * d, kv * d])
        for name, part in zip("qkv", qkv, strict=True):
            state[f"{theirs}.self_attn.{name}_proj.weight"] = part
        gate, up = p[f"{ours}.mlp.up.weight"].chunk(2)
        state |= {
            f"{theirs}.self_attn.o_proj.weight": p[f"{ours}.attention.projection.weight"],
            f"{theirs}.mlp.gate_proj.weight": gate,
            f"{theirs}.mlp.up_proj.weight": up,
            f"{theirs}.mlp.down_proj.weight": p[f"{ours}.mlp.down.weight"],
            f"{theirs}.input_layernorm.weight": p[f"{ours}.attention_norm.weight"],
            f"{theirs}.post_attention_layernorm.weight": p[f"{ours}.mlp_norm.weight"],
        }
    llama = transformers.LlamaForCausalLM(config).double()
    llama.load_state_dict(state)
    ours = logits_of(model, p, tokens, Dropout(0, 0, 0, 0))
    torch.testing.assert_close(ours, llama(tokens).logits, rtol=0, atol=1e-5)


def clip(gradients, most):
    """Scales gradients whose norm is above `most`; their norm before. Source: Megatron-LM, clip_grad_by_total_norm."""
    total = math.sqrt(sum(float(gradient.square().sum()) for gradient in gradients))
    factor = most / (total + 1e-6)
    if factor < 1:
        for gradient in gradients:
            gradient.mul_(factor)
    return total


def train(model, training, seed):
    """Everything that a file holds."""
    generator = torch.Generator().manual_seed(seed)
    s, v = model["sequence"], model["vocabulary"]
    start = random_parameters(model, generator)
    sequences = torch.randint(v, (STEPS * BATCH["global"], s + 1), generator=generator)
    check = check_gpt if model["norm"] == "layernorm" else check_llama
    check(model, start, sequences[: BATCH["global"], :-1])

    p = {name: torch.nn.Parameter(values.clone()) for name, values in start.items()}
    decay = training["weight_decay"]
    adam = torch.optim.AdamW(
        [{"params": [x for x in p.values() if x.dim() > 1], "weight_decay": decay},
         {"params": [x for x in p.values() if x.dim() == 1], "weight_decay": 0.0}],
        lr=training["learning_rate"], betas=(training["beta1"], training["beta2"]),
        eps=training["epsilon"])  # fmt: skip
    steps, first = [], {}
    for step, batch in enumerate(sequences.split(BATCH["global"])):
        parts = []
        for microbatch, part in enumerate(batch.split(BATCH["micro"])):
            dropout = Dropout(model["dropout"], training["seed"], step, microbatch)
            parts.append(logits_of(model, p, part[:, :-1], dropout))
        logits = torch.cat(parts)  # [sequence of the global batch, position, word]
        loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        adam.zero_grad()
        loss.backward()
        if step == 0:
            first = {"logits": logits.detach(), "gradients": {name: x.grad.clone() for name, x in p.items()}}
        total = clip([x.grad for x in p.values()], training["clip"])
        assert (total > training["clip"]) == (training["clip"] < 1)
        steps.append({"loss": float(loss.detach()), "gradient_norm": total})
        adam.step()
    return {
        "made_with": {"torch": torch.__version__, "numpy": numpy.__version__},
        "model": model,
        "batch": BATCH,
        "training": training,
        "sequences": sequences,
        "parameters": start,
        "logits": first["logits"],
        "gradients": first["gradients"],
        "steps": steps,
        "parameters_after": {name: x.detach() for name, x in p.items()},
    }


def flat(value):
    """Tensors as lists of numbers, the last axis fastest; sequences keep both axes."""
    if isinstance(value, dict):
        return {key: flat(entry) for key, entry in value.items()}
    if isinstance(value, torch.Tensor):
        return (value if value.dtype == torch.int64 else value.flatten()).tolist()
    return value


def text_of(contents):
    """JSON, one line for each entry of the second level."""
    lines = []
    for key, value in contents.items():
        if isinstance(value, dict):
            inner = ",\n".join(f"{json.dumps(name)}: {json.dumps(entry)}" for name, entry in value.items())
            lines.append(f"{json.dumps(key)}: {{\n{inner}}}")
        else:
            lines.append(f"{json.dumps(key)}: {json.dumps(value)}")
    return "{" + ",\n".join(lines) + "}\n"


def main(directory):
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    check_philox()
    for seed, (name, (model, most)) in zip(itertools.count(1), VARIANTS.items()):
        text = text_of(flat(train(model, TRAINING | {"clip": most}, seed)))
        (directory / f"{name}.json").write_text(text)
        print(f"{name}.json: {len(text)} bytes")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).parent)
