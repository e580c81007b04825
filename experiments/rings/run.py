#!/usr/bin/env python3
"""Prints core attention of rings with two chunks of rows per rank and with consecutive rows, as README.md shows it.

    python3 experiments/rings/run.py PROGRAM
"""
import csv
import json
import pathlib
import subprocess
import sys
import tempfile

RANKS = 8
ROWS = 8192  # of each GPU
# Attention of Llama 3.1 8B; what else a layer has is not looked at.
RUN = """
model: {{layers: 1, hidden: 4096, heads: 32, kv_heads: 8, sequence: {sequence}, vocabulary: 32000, precision: bf16, attention: flash,
  attention_dropout: 0, dropout: 0, biases: false, positions: rotary, norm: rmsnorm, activation: swiglu, ffn_hidden: 14336}}
parallel: {{context: {context}, context_method: {method}}}
batch: {{global: 1, micro: 1}}
system: {{base: {base}{constants}}}
"""
# An H800 has 400 GB/s of NVLink in both directions together, where an H100 has 900.
BASES = {"H800": "dgx-h100, node: {p2p: {latency: 3.4 us, bandwidth: 200 GB/s}}", "A100": "hgx-a100-80"}


def attention(program, base, constants="", context=1, method="ring"):
    """Seconds of core attention in the forward and in the backward pass of a layer."""
    text = RUN.format(sequence=ROWS * context, context=context, method=method, base=base, constants=constants)
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        result = subprocess.run([program, "layer", "--json", file.name], capture_output=True, text=True)
    if not result.stdout:
        sys.exit(result.stderr)
    seconds = []
    for is_forward in (True, False):
        ops = [op for op in json.loads(result.stdout)["layers"][0]["ops"]
               if op["op"].startswith("core_attention.") and (op["phase"] == "forward") == is_forward]
        # Messages run beside the ops of the compute stream; the last of them is waited for.
        seconds.append(max(op["start_seconds"] + op["seconds"] for op in ops) - ops[0]["start_seconds"])
    return seconds


def published():
    """By GPU: by passes, the row of the table."""
    rows = {}
    with open(pathlib.Path(__file__).with_name("published.csv"), encoding="utf-8") as file:
        for row in csv.DictReader(file):
            rows.setdefault(row["gpu"], {})[row["passes"]] = row
    return rows


def measured_efficiencies(program, base, rows):
    """The fractions of the peak at which attention ran on one GPU, as keys of a system."""
    def one_gpu(fraction):
        return attention(program, base, f", calibration: {{flash_forward_efficiency: {fraction}, "
                                        f"flash_backward_efficiency: {fraction}, kernel_launch: 0 s}}")

    forward = 1 / float(rows["forward"]["one_gpu_per_second"])
    backward = 1 / float(rows["forward and backward"]["one_gpu_per_second"]) - forward
    at_half = one_gpu(0.5)
    return (f", calibration: {{flash_forward_efficiency: {at_half[0] * 0.5 / forward:.4f}, "
            f"flash_backward_efficiency: {at_half[1] * 0.5 / backward:.4f}}}")


def print_rows(program, gpu, rows, kernels, constants):
    def total(passes, **of_ring):
        forward, backward = attention(program, BASES[gpu], constants, **of_ring)
        return forward if passes == "forward" else forward + backward

    for passes, row in rows.items():
        zigzag = total(passes, context=RANKS)
        contiguous = total(passes, context=RANKS, method="contiguous_ring")
        measured_zigzag = 1 / float(row["zigzag_per_second"])
        measured_contiguous = 1 / float(row["contiguous_per_second"])
        measured = measured_contiguous / measured_zigzag
        predicted = contiguous / zigzag
        print(f"| {gpu} | {passes} | {kernels} | {1e3 * measured_zigzag:.1f} | {1e3 * zigzag:.1f} | "
              f"{1e3 * measured_contiguous:.1f} | {1e3 * contiguous:.1f} | {measured:.3f} | {predicted:.3f} | "
              f"{100 * (predicted / measured - 1):+.1f} % |")


def main():
    program = sys.argv[1]
    print("| GPU | passes | attention's speed | zigzag, ms: measured | predicted | contiguous, ms: measured | predicted | "
          "ratio measured | predicted | error |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for gpu, rows in published().items():
        print_rows(program, gpu, rows, "system file", "")
        print_rows(program, gpu, rows, "one GPU", measured_efficiencies(program, BASES[gpu], rows))


if __name__ == "__main__":
    main()
