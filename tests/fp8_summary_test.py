"""Holds the sums of experiments/gpu/summary.py over lines of FP8 measurements against a count by hand.

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
            {"kind": "layer", "precision": "fp8", "forward_seconds": 30, "backward_seconds": None}]
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder)
        write(out / "fp8-products.jsonl", ours, cut_off='{"kind": "prod')
        write(out / "fp8-torch.jsonl", its)
        row = {"case": "baseline", "forward_seconds": 50, "backward_seconds": 70, "forward_communication_seconds": 4,
               "backward_communication_seconds": 6}
        (out / "layer-70b-own.json").write_text(json.dumps({"rows": [row]}))
        rows = dict((name, (mine, peer)) for name, mine, peer in summary.fp8_rows(out))
        layers = summary.layer_rows(out)
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
    # 120 less 10 of communication; then 24 and 3 of copies in place of 48.
    assert layers == [("bf16, attention own", 110, 100), ("FP8, a scale for a tensor, attention own", 89, None)], layers


main()
