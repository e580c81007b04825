"""One layer, forward and backward, on this machine's CPU: the executor against PyTorch in eager mode.

usage: layer.py PROGRAM PYTHON... [--threads N] [--repeats N]

PROGRAM is measure_layer_speed; each PYTHON has a PyTorch. All take turns in each repetition, so that whatever else
the machine does meets all of them; a ratio is the median of the ratios within the repetitions. Beside it stands what
the layer takes beyond its matrix products, of what these take in bare OpenBLAS. Exit code 1 where no PyTorch runs.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import time

PEER = pathlib.Path(__file__).with_name("torch_layer.py")
PAUSE = 0.1  # seconds in which threads of the one before go to sleep


class Contestant:
    """A process that runs something once for each line it is sent."""

    def __init__(self, name, command, request="go"):
        self.name, self.request, self.seconds = name, request, []
        self.process = subprocess.Popen(
            [str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def line(self):
        return self.process.stdout.readline().strip()

    def run(self):
        time.sleep(PAUSE)
        self.process.stdin.write(self.request + "\n")
        self.process.stdin.flush()
        parts = [float(word) for word in self.line().split()]
        if not parts:
            sys.exit(f"layer.py: {self.name} has ended")
        return parts

    def measure(self):
        self.seconds.append(self.run())

    def sums(self):
        return [sum(parts) for parts in self.seconds]


def peer(python, threads):
    one = Contestant(str(python), [python, PEER, threads])
    version = one.line()
    if not version:
        print(f"no PyTorch: {python} -c 'import torch' fails", file=sys.stderr)
        return None
    one.name = f"PyTorch {version}"
    return one


def spread(values):
    """Median, first and third quartile, in ms."""
    low, middle, high = (1e3 * value for value in statistics.quantiles(values, n=4))
    return f"{middle:7.1f} [{low:6.1f}, {high:6.1f}]"


def ratio(ours, theirs):
    values = [a / b for a, b in zip(ours, theirs)]
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:5.2f} [{low:.2f}, {high:.2f}]"


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("program")
    options.add_argument("python", nargs="*")
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--repeats", type=int, default=15)
    chosen = options.parse_args()
    ours = Contestant("stagecraft", [chosen.program, chosen.threads], "layer")
    products = Contestant("its products in bare OpenBLAS", [chosen.program, chosen.threads], "gemm")
    peers = [one for one in (peer(python, chosen.threads) for python in chosen.python) if one]
    everyone = [ours, products, *peers]
    before = os.getloadavg()
    for one in everyone:
        for _ in range(2):
            one.run()
    for _ in range(chosen.repeats):
        for one in everyone:
            one.measure()
    print(f"a layer, h 1024, a 16, s 512, b 4, float, dropout 0.1; {chosen.threads} threads, {chosen.repeats} "
          f"repetitions; load of the machine {before[0]:.1f} before, {os.getloadavg()[0]:.1f} after")
    print("median [quartiles], ms                forward                   backward                       sum"
          "      stagecraft / it")
    for one in everyone:
        if one is products:
            continue
        columns = [spread([parts[i] for parts in one.seconds]) for i in (0, 1)] + [spread(one.sums())]
        print(f"{one.name:27s} {'  '.join(columns)}  {'' if one is ours else ratio(ours.sums(), one.sums())}")
    print(f"{products.name:27s} {'':50s}  {spread(products.sums())}")
    rest = [(layer - gemm) / gemm for layer, gemm in zip(ours.sums(), products.sums())]
    print(f"beyond its products the layer takes {100 * statistics.median(rest):.0f} % of what they take in bare OpenBLAS")
    return 0 if peers else 1


if __name__ == "__main__":
    sys.exit(main())
