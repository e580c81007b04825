"""How fast the Python package is: import, single and many simulations of GPT-3 175B, memory over many calls.

usage: speed.py [RUNS]   (default: 4000 distinct runs)
"""

import itertools
import resource
import subprocess
import sys
import time

import stagecraft


def distinct_runs(wanted):
    """Layouts, microbatches and policies of GPT-3 175B, all different."""
    base = stagecraft.load("stagecraft:configs/paper/175b-present.yaml")
    axes = {
        "parallel.tensor": (8, 4, 2, 1),
        "parallel.pipeline": (8, 4, 16, 2, 12, 24, 6),
        "parallel.interleave": (1, 2, 3, 4),
        "batch.micro": (1, 2, 4),
        "recompute": ("selective", "none", "full"),
        "parallel.sequence": (True, False),
        "batch.global": (64, 96, 128, 192),
        "parallel.data": (1, 2),
    }
    runs = []
    for values in itertools.product(*axes.values()):
        overrides = dict(zip(axes, values))
        overrides["schedule"] = "1f1b" if overrides["parallel.interleave"] == 1 else "interleaved"
        if overrides["parallel.tensor"] == 1 and overrides["parallel.sequence"]:
            continue  # the same plan as without
        try:
            runs.append(base.with_(overrides))
        except stagecraft.ConfigError:
            continue
        if len(runs) == wanted:
            break
    return runs


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def main(wanted):
    times = []
    for _ in range(5):
        code = "import time; t = time.perf_counter(); import stagecraft; print(time.perf_counter() - t)"
        times.append(float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout))
    print(f"import: {1e3 * min(times):.1f} ms (least of 5)")

    begin = time.process_time()
    runs = distinct_runs(wanted)
    seconds = time.process_time() - begin
    print(f"{len(runs)} runs made with with_(): {len(runs) / seconds:.0f} per second of CPU")

    begin = time.process_time()
    many = stagecraft.simulate_many(runs, threads=1)
    seconds = time.process_time() - begin
    print(f"simulate_many: {len(runs) / seconds:.0f} per second of CPU")
    print(f"  distinct times: {len({one.iteration_seconds for one in many})}")

    begin = time.process_time()
    for run in runs:
        stagecraft.simulate(run)
    seconds = time.process_time() - begin
    print(f"simulate, one by one: {len(runs) / seconds:.0f} per second of CPU")

    small = runs[:100]
    held = []
    for calls in (1_000, 20_000):
        for _ in range((calls - (1_000 if held else 0)) // len(small)):
            for run in small:
                stagecraft.simulate(run)
        held.append(resident_bytes())
    print(f"memory after 20,000 calls over that after 1,000: {(held[1] - held[0]) / 2**20:+.2f} MiB")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4000)
