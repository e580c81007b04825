#!/usr/bin/env python3
"""Does `stagecraft import huggingface` count the parameters that transformers' own classes have?

For each type that the import reads, transformers makes the configuration and the model (on the
meta device, so that nothing is allocated). The file is imported, with what messages ask for, and
both counts are compared: as the class has it by default, and smaller.

    experiments/huggingface/run.py build/plain/apps/stagecraft/stagecraft

Needs transformers 5 and torch, which `pip install torch transformers` gives.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

import torch
import transformers

# The last are mixtures of experts, all others dense decoders.
TYPES = """arcee bloom cwm ernie4_5 exaone4 falcon gemma gemma2 gemma3_text glm glm4 gpt2 gpt_bigcode gpt_neox granite
helium hunyuan_v1_dense llama ministral ministral3 mistral nemotron olmo2 olmo3 opt phi3 qwen2 qwen3 seed_oss smollm3 stablelm starcoder2 vaultgemma
mixtral qwen2_moe qwen3_moe olmoe deepseek_v2 deepseek_v3 gpt_oss llama4_text""".split()

# A small model of every type: what of these its configuration has.
SMALL = {"num_hidden_layers": 4, "n_layer": 4, "hidden_size": 256, "n_embd": 256, "num_attention_heads": 8, "n_head": 8,
         "num_key_value_heads": 4, "intermediate_size": 640, "ffn_dim": 1024, "head_dim": 32, "vocab_size": 1000,
         "word_embed_proj_dim": 256, "num_experts_per_tok": 2, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


def parameters(config):
    """Of the class's model, tied matrices once."""
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    model.tie_weights()
    return sum(parameter.numel() for parameter in {id(p): p for p in model.parameters()}.values())


def imported(program, folder, ignore=(), sequence=None):
    """(parameters, remedies) of the import, or (None, message)."""
    words = [program, "import", "huggingface", folder / "config.json"]
    words += ["--ignore", ",".join(ignore)] if ignore else []
    words += ["--sequence", sequence] if sequence else []
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)
    if done.returncode == 0:
        count = int(re.search(r": (\d+) parameters", done.stdout).group(1))
        return count, " ".join(map(str, words[4:]))
    asked = set(re.findall(r"--ignore ([\w.]+)", done.stderr)) - set(ignore)
    lengths = re.findall(r"--sequence (\d+)", done.stderr)
    if asked or (lengths and not sequence):
        return imported(program, folder, [*ignore, *sorted(asked)], sequence or (lengths[0] if lengths else None))
    return None, done.stderr.strip().splitlines()[0]


def configurations(kind):
    """The class's default, and a smaller model."""
    default = transformers.AutoConfig.for_model(kind)
    yield "default", default
    yield "small", transformers.AutoConfig.for_model(
        kind, **{name: value for name, value in SMALL.items() if name in default.to_dict()})


def main(program):
    exact = set(TYPES)
    for kind in TYPES:
        for size, config in configurations(kind) if kind in transformers.CONFIG_MAPPING else []:
            with tempfile.TemporaryDirectory() as name:
                config.save_pretrained(name)
                try:
                    want = parameters(config)
                except Exception as error:  # a class may refuse its own default
                    print(f"{kind} {size}: transformers: {error}")
                    continue
                got, remedies = imported(program, pathlib.Path(name))
            if got != want:
                exact.discard(kind)
            print(f"{kind} {size}: {want}", "exact" if got == want else got, remedies, flush=True)
        if kind not in transformers.CONFIG_MAPPING:
            exact.discard(kind)
            print(f"{kind}: not in transformers {transformers.__version__}")
    print(f"{len(exact)} of {len(TYPES)} types have exact counts (transformers {transformers.__version__})")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
