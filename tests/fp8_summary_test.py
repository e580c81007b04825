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
    linears, tensors, passes = range(4), ("input", "weight", "gradient"), range(3)
    ours = [{"kind": "facts"}]
    ours += [{"kind": "copy", "tensor": tensor, "recipe": recipe, "seconds": 0.25}
             for _ in linears for recipe in ("tensor", "blocks") for tensor in tensors]
    ours += [{"kind": "product", "bf16_seconds": 4, "tensor_seconds": 2, "blocks_seconds": None} for _ in linears for _ in passes]
    its = [{"kind": "product", "bf16_seconds": 5, "tensor_seconds": 3} for _ in linears for _ in passes]
    its += [{"kind": "layer", "precision": "bf16", "forward_seconds": 40, "backward_seconds": 60},
            {"kind": "layer", "precision": "fp8", "forward_seconds": 30, "backward_seconds": None},
            {"kind": "attention", "backend": "flash", "forward_seconds": 0.003, "backward_seconds": 0.008}]
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder)
        write(out / "fp8-products.jsonl", ours, cut_off='{"kind": "prod')
        write(out / "fp8-torch.jsonl", its)
        row = {"case": "baseline", "forward_seconds": 50, "backward_seconds": 70, "forward_communication_seconds": 4,
               "backward_communication_seconds": 6}
        (out / "layer-70b-own.json").write_text(json.dumps({"rows": [row]}))
        rows = dict((name, (mine, peer)) for name, mine, peer in summary.fp8_rows(out))
        layers = summary.layer_rows(out)
        ops = [("qkv", 9), ("core_attention.flash", 2), ("core_attention.flash", 4), ("core_attention.flash_backward", 7)]
        (out / "attention-own.csv").write_text("duration_ps,op\n" + "".join(f"{ms}000000000,{op}\n" for op, ms in ops))
        attention = summary.attention_rows(out)
        (out / "calibrated.yaml").write_text("gemm: {source: 'stagecraft on a GPU, 2026; fp16: 1 to 2 MHz; 3 W in\n  layers,"
                                             " 4 to 5 MHz; 6 W among products'}\n")
        clocks = summary.clocks(out)
    wanted = {
        "products, bf16": (48, 60),  # 4 linears x 3 passes
        "products, FP8, a scale for a tensor": (24, 36),
        "products, FP8, 1 x 128 and 128 x 128": (None, None),  # none of cuBLASLt, nor of PyTorch
        "copies of inputs and gradients, scales of a tensor": (2, None),  # 4 x 2 of 0.25
        "copies of weights, scales of a tensor": (1, None),
        "copies of inputs and gradients, scales of blocks": (2, None),
        "copies of weights, scales of blocks": (1, None),
    }
    assert rows == wanted, rows
    assert attention == [("own, forward, beside PyTorch's flash", 0.003, 0.003),  # the mean of 2 and 4 ms
                         ("own, backward, beside PyTorch's flash", 0.007, 0.008)], attention
    assert clocks == [("fp16", "1 to 2 MHz; 3 W", "4 to 5 MHz; 6 W")], clocks
    # 120 less 10 of communication; then 24 and 3 of copies in place of 48.
    assert layers == [("bf16, attention own", 110, 100), ("FP8, a scale for a tensor, attention own", 89, None)], layers


main()
