"""Holds what experiments/gpu/summary.py reads of measurements, and sums over lines of them, against a count by hand.

usage: fp8_summary_test.py
"""

import json
import pathlib
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "experiments" / "gpu"))
import summary  # noqa: E402


def write(path, lines, cut_off=""):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines) + cut_off)


def main():
    linears, tensors, passes = range(4), ("input", "weight", "gradient"), ("forward", "input_gradient", "weight_gradient")
    ours = [{"kind": "facts"}, {"kind": "memcpy", "bytes": 60, "seconds": 3}]
    ours += [{"kind": "copy", "tensor": tensor, "recipe": recipe, "seconds": 0.25, "bytes": 4}
             for _ in linears for recipe in ("tensor", "blocks") for tensor in tensors]
    # cuBLASLt has blocks for the forward of all linear layers but one, and sums gradients of weights in bf16 only.
    ours += [{"kind": "product", "pass": name, "bf16_seconds": 4, "tensor_seconds": 2,
              "tensor_is_bf16": 1 if name == "weight_gradient" else None,
              "blocks_seconds": 3 if name == "input_gradient" or (name == "forward" and linear < 3) else None}
             for linear in linears for name in passes]
    its = [{"kind": "attention", "backend": "flash", "forward_seconds": 0.003, "backward_seconds": 0.008}]
    later = [{"kind": "product", "pass": name, "bf16_seconds": 5, "tensor_seconds": 3} for _ in linears for name in passes]
    later += [{"kind": "layer", "precision": "bf16", "forward_seconds": 40, "backward_seconds": 60},
              {"kind": "layer", "precision": "fp8", "forward_seconds": 30, "backward_seconds": None}]
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder)
        write(out / "fp8-products.jsonl", ours, cut_off='{"kind": "prod')
        write(out / "fp8-torch-attention.jsonl", its)
        write(out / "fp8-torch-product-layer.jsonl", later)
        row = {"case": "baseline", "forward_seconds": 50, "backward_seconds": 70, "forward_communication_seconds": 4,
               "backward_communication_seconds": 6}
        (out / "layer-70b-own.json").write_text(json.dumps({"rows": [row]}))
        rows = dict((name, (mine, peer)) for name, mine, peer in summary.fp8_rows(out))
        rates = {name: (rate, share) for name, rate, share in summary.copy_rates(out)}
        layers = summary.layer_rows(out)
        ops = [("qkv", 9), ("core_attention.flash", 2), ("core_attention.flash", 4), ("core_attention.flash_backward", 7)]
        (out / "attention-own.csv").write_text("duration_ps,op\n" + "".join(f"{ms}000000000,{op}\n" for op, ms in ops))
        attention = summary.attention_rows(out)
        write(out / "fp8-products.jsonl", ours[:-1], cut_off=json.dumps(ours[-1])[:9])
        cut_off = [mine for _, mine, _ in summary.fp8_rows(out)]
        (out / "calibrated.yaml").write_text("gemm: {source: 'stagecraft on a GPU, 2026; fp16: 1 to 2 MHz; 3 W in\n  layers,"
                                             " 4 to 5 MHz; 6 W among products'}\n")
        clocks = summary.clocks(out)
    tensor, blocks = "FP8, a scale for a tensor", "FP8, 1 x 128 and 128 x 128"
    wanted = {
        "forward, bf16": (16, 20),  # 4 linears of 4 and of 5
        "gradients of inputs, bf16": (16, 20),
        "gradients of weights, bf16": (16, 20),
        f"forward, {tensor}": (8, 12),
        f"gradients of inputs, {tensor}": (8, 12),
        f"gradients of weights, {tensor} (into bf16)": (8, 12),
        f"forward, {blocks}": (None, None),  # one was refused, and PyTorch has none
        f"gradients of inputs, {blocks}": (12, None),
        f"gradients of weights, {blocks}": (None, None),
        f"copies of inputs and gradients, {tensor}": (2, None),  # 4 x 2 of 0.25
        f"copies of weights, {tensor}": (1, None),
        f"copies of inputs and gradients, {blocks}": (2, None),
        f"copies of weights, {blocks}": (1, None),
    }
    assert rows == wanted, rows
    assert cut_off == [None if "gradients of weights" in name else mine for name, (mine, _) in wanted.items()], cut_off
    # 4 in 0.25 beside 60 in 3.
    assert rates == {"a copy within the device": (20, 1),
                     **{f"{name}, {recipe}": (16, 0.8) for name in tensors for recipe in (tensor, blocks)}}, rates
    assert attention == [("own, forward, beside PyTorch's flash", 0.003, 0.003),  # the mean of 2 and 4 ms
                         ("own, backward, beside PyTorch's flash", 0.007, 0.008)], attention
    assert clocks == [("fp16", "1 to 2 MHz; 3 W", "4 to 5 MHz; 6 W")], clocks
    # 120 less 10 of communication; then 24 and 3 of copies in place of 48.
    assert layers == [("bf16, attention own", 110, 100), ("FP8, a scale for a tensor, attention own", 89, None)], layers


main()
