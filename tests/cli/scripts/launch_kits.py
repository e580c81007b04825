"""Reads back the kits that `plan --kit` writes: scripts and recipe give the plan and the time of the run file.

usage: launch_kits.py STAGECRAFT

Recipes are also held against the recorded signatures of Megatron-Bridge.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import check_recipe

SIGNATURES = pathlib.Path(__file__).with_name("megatron_bridge.json")

# Model, GPUs, sequences per iteration, other words. Of dense models, of models with experts, of latent attention, and of
# Megatron-LM of 2022, for which there is no recipe.
KITS = [("llama2-7b", 16, 64, []), ("gpt3-175b", 128, 256, []), ("mixtral-8x7b", 64, 256, []),
        ("gpt-22b", 16, 64, ["--software", "megatron-2022", "--set", "model.vocabulary=50257"]),
        ("llama3-8b", 12, 96, ["--set", "memory.allocator_settings=expandable_segments:True"]),
        ("llama3-8b", 64, 32, ["--fix", "context=4", "--fix", "recompute=selective"]),
        ("deepseek-v3", 1024, 1024, ["--fix", "pipeline=16", "--fix", "expert=64", "--fix", "tensor=1", "--fix", "micro=1"])]

ZERO_STAGES = [1, 2, 3]
STRATEGIES = [("uniform", 2), ("uniform", 1)]  # recompute and microbatch, with FSDP by Accelerate


def run(program, *words):
    done = subprocess.run([program, *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}: {done.stderr}")
    return done.stdout


def outcome(program, file, *words):
    document = json.loads(run(program, "simulate", file, "--json", *words))
    return document["plan"], document["iteration_seconds"]


def main(program):
    wrong = 0
    for model, gpus, batch, words in KITS:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            kit, again, settings = folder / "kit", folder / "again.yaml", folder / "settings.yaml"
            run(program, "plan", model, "--system", "dgx-h100", "--gpus", gpus, "--global-batch", batch, "--top", 1,
                *words, "--kit", kit)
            wanted = outcome(program, kit / "run.yaml")
            sources = [["--script", kit / "torchrun.sh"], ["--script", kit / "slurm.sbatch"]]
            recipe = kit / "megatron_bridge.py"
            if recipe.is_file():
                if check_recipe.main(recipe, SIGNATURES, settings):
                    sys.exit(f"{model}: the recipe does not fit the package")
                sources.append(["--yaml", settings, "--world-size", gpus])
            elif "megatron-2022" not in words:
                sys.exit(f"{model}: no recipe")
            for script in ("torchrun.sh", "slurm.sbatch"):
                subprocess.run(["bash", "-n", kit / script], check=True)
            for source in sources:
                again.unlink(missing_ok=True)
                run(program, "import", "megatron", *source, "--system", "dgx-h100", "-o", again)
                if outcome(program, again) != wanted:
                    print(f"{model} on {gpus}: {source[1].name} is another plan")
                    wrong += 1
    for stage in ZERO_STAGES:
        with tempfile.TemporaryDirectory() as name:
            kit, again = pathlib.Path(name) / "kit", pathlib.Path(name) / "again.yaml"
            run(program, "plan", "llama3-8b", "--system", "dgx-h100", "--gpus", 16, "--global-batch", 64, "--top", 1,
                "--software", "deepspeed", "--fix", f"sharding=zero{stage}", "--fix", "recompute=uniform",
                "--launchable", "deepspeed", "--kit", kit)
            subprocess.run(["bash", "-n", kit / "accelerate.sh"], check=True)
            compile((kit / "train.py").read_text(), "train.py", "exec")
            run(program, "import", "deepspeed", kit / "deepspeed.json", "--model", "llama3-8b", "--system", "dgx-h100",
                "--world-size", 16, "-o", again)
            if outcome(program, again, "--set", "recompute=full") != outcome(program, kit / "run.yaml"):
                print(f"stage {stage}: deepspeed.json is another plan")
                wrong += 1
    for strategy, micro in STRATEGIES:
        with tempfile.TemporaryDirectory() as name:
            kit, again = pathlib.Path(name) / "kit", pathlib.Path(name) / "again.yaml"
            run(program, "plan", "llama3-8b", "--system", "dgx-h100", "--gpus", 16, "--global-batch", 64, "--top", 1,
                "--set", "sharding.reduce_dtype=bf16", "--fix", f"recompute={strategy}", "--fix", f"micro={micro}",
                "--launchable", "accelerate", "--kit", kit)
            subprocess.run(["bash", "-n", kit / "accelerate.sh"], check=True)
            compile((kit / "train.py").read_text(), "train.py", "exec")
            run(program, "import", "accelerate", kit / "accelerate.yaml", "--model", "llama3-8b", "--system", "dgx-h100",
                "--micro-batch", micro, "--accumulation", 4 // micro, "-o", again)
            if outcome(program, again) != outcome(program, kit / "run.yaml"):
                print(f"recompute {strategy}: accelerate.yaml is another plan")
                wrong += 1
    with tempfile.TemporaryDirectory() as name:
        kit, again = pathlib.Path(name) / "kit", pathlib.Path(name) / "again.yaml"
        run(program, "plan", "llama3-8b", "--system", "dgx-h100", "--gpus", 16, "--global-batch", 64, "--top", 1,
            "--launchable", "megatron-fsdp", "--kit", kit)
        run(program, "import", "megatron", "--script", kit / "torchrun.sh", "--system", "dgx-h100", "-o", again)
        if outcome(program, again) != outcome(program, kit / "run.yaml"):
            print("Megatron-FSDP: torchrun.sh is another plan")
            wrong += 1
    print(f"{len(KITS) + len(ZERO_STAGES) + len(STRATEGIES) + 1} kits, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
