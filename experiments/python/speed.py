"""How fast the Python package is: import, single and many simulations of GPT-3 175B, memory over many calls, a sweep.

usage: speed.py [RUNS]   (default: 4000 distinct runs)
"""

import itertools
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


def small_sweep():
    """101,376 points of a model of 22 billion parameters on at most 16 GPUs; about as many plans are possible."""
    return {
        "base": "stagecraft:configs/paper/22b-full.yaml",
        "values": {
            "batch.global": list(range(8, 136, 8)),
            "parallel.tensor": [1, 2, 4, 8],
            "parallel.pipeline": [1, 2, 4],
            "parallel.data": [1, 2],
            "parallel.sequence": [True, False],
            "batch.micro": [1, 2],
            "recompute": ["none", "selective", "full"],
            "model.attention": ["flash", "unfused"],
            "model.sequence": list(range(512, 6144, 512)),
        },
    }


def resident_bytes(of="VmRSS"):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(of))


def seconds_of_import():
    code = "import time; t = time.perf_counter(); import stagecraft; print(time.perf_counter() - t); stagecraft.load"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(run.stdout)


def measure_memory(runs):
    held = []
    done = 0
    for calls in (1_000, 100_000):
        while done < calls:
            for run in runs[:100]:
                stagecraft.simulate(run)
            done += 100
        held.append(resident_bytes())
    print(f"memory after 100,000 calls over that after 1,000: {(held[1] - held[0]) / 2**20:+.2f} MiB (goal: 1)")


def measure_sweep():
    before = resident_bytes()
    begin = time.monotonic()
    frame = stagecraft.sweep(small_sweep(), threads=2)
    seconds = time.monotonic() - begin
    print(f"sweep: {len(frame)} rows, {frame['valid'].sum()} possible, in {seconds:.1f} s on two threads (goal: 60)")
    print(f"  {frame.memory_usage(deep=True).sum() / 2**20:.0f} MiB of table, and at most "
          f"{(resident_bytes('VmHWM') - before) / 2**20:.0f} MiB more than before, the table included")


def main(wanted):
    print(f"import: {1e3 * min(seconds_of_import() for _ in range(5)):.1f} ms (least of 5; goal: 60)")

    begin = time.process_time()
    runs = distinct_runs(wanted)
    seconds = time.process_time() - begin
    print(f"{len(runs)} runs made with with_(): {len(runs) / seconds:.0f} per second of CPU")

    begin = time.process_time()
    many = stagecraft.simulate_many(runs, threads=1)
    seconds = time.process_time() - begin
    print(f"simulate_many: {len(runs) / seconds:.0f} per second of CPU (goal: 5,000)")
    print(f"  distinct times: {len({one.iteration_seconds for one in many})}")

    begin = time.process_time()
    for run in runs:
        stagecraft.simulate(run)
    seconds = time.process_time() - begin
    print(f"simulate, one by one: {len(runs) / seconds:.0f} per second of CPU (goal: 2,000)")
    measure_memory(runs)
    measure_sweep()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 4000)
