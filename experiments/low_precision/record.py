#!/usr/bin/env python3
"""Records what others make of the same numbers in 8 and 4 bits, for tests/libexec/kernels.

usage: record.py TRANSFORMER_ENGINE > ../../tests/libexec/reference/low_precision.json

TRANSFORMER_ENGINE: a checkout, of which the reference quantisers are read; it need not be built.
"""
import importlib.util
import json
import pathlib
import sys
import types

import ml_dtypes
import numpy as np
import torch
from torchao.float8.config import ScalingGranularity
from torchao.float8.float8_scaling_utils import hp_tensor_to_float8_dynamic
from torchao.float8.float8_training_tensor import LinearMMConfig
from torchao.prototype.mx_formats.config import ScaleCalculationMode
from torchao.prototype.mx_formats.mx_tensor import to_mx

FORMATS = {
    "f8_e4m3": (ml_dtypes.float8_e4m3fn, 448.0, 256),
    "f8_e5m2": (ml_dtypes.float8_e5m2, 57344.0, 256),
    "f4_e2m1": (ml_dtypes.float4_e2m1fn, 6.0, 16),
}


def drawn_bits(count, seed):
    """Words of 32 bits; the tests draw the same. Source: Knuth, MMIX."""
    state = seed
    words = []
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        words.append(state >> 32)
    return words


def drawn_matrix(rows, columns, seed):
    """bf16 numbers of both signs with exponents from 2^-9 to 2^6, rows [rows, columns]."""
    bits = [(w >> 31 << 15) | ((118 + (w >> 8) % 16) << 7) | (w & 0x7F) for w in drawn_bits(rows * columns, seed)]
    return torch.tensor(np.array(bits, dtype=np.uint16).view(np.int16)).view(torch.bfloat16).reshape(rows, columns)


def hexadecimal(values):
    """The bytes of a tensor or array, as text."""
    if isinstance(values, torch.Tensor):
        values = values.contiguous().reshape(-1).view(torch.uint8).numpy()
    return np.ascontiguousarray(values).tobytes().hex()


def encoded(name):
    """Floats and their codes: drawn ones, and for each pair of neighbours these, what lies in the
    middle and the floats beside it; beyond the largest number, all become that."""
    dtype, largest, codes = FORMATS[name]
    numbers = np.arange(codes, dtype=np.uint8).view(dtype).astype(np.float32)
    ordered = np.unique(numbers[np.isfinite(numbers)])
    middle = (ordered[1:] + ordered[:-1]) / 2
    near = [np.nextafter(middle, np.float32(way), dtype=np.float32) for way in (-1e9, 1e9)]
    limits = np.array([largest, largest * 1.03, largest * 1.07, largest * 2, 3e38, np.inf, 1e-30, 0], dtype=np.float32)
    drawn = np.array(drawn_bits(2000, 11), dtype=np.uint32)
    # Three quarters have exponents around those of the format.
    drawn[:1500] = (drawn[:1500] & 0x807FFFFF) | ((108 + (drawn[:1500] >> 23) % 40) << 23)
    floats = np.concatenate([ordered, middle, *near, limits, -limits, drawn.view(np.float32)])
    floats = floats[~np.isnan(floats)]
    saturated = np.clip(floats, -np.float32(largest), np.float32(largest))
    return {"floats": hexadecimal(floats), "codes": hexadecimal(saturated.astype(dtype).view(np.uint8))}


def formats():
    table = {}
    for name, (dtype, _, codes) in FORMATS.items():
        numbers = np.arange(codes, dtype=np.uint8).view(dtype).astype(np.float32)
        table[name] = {"numbers": hexadecimal(numbers), **encoded(name)}
    codes = np.arange(256, dtype=np.uint8)
    table["e8m0"] = {"numbers": hexadecimal(codes.view(ml_dtypes.float8_e8m0fnu).astype(np.float32))}
    return table


def case(recipe, element, rows, columns, by_columns, weight, codes, scales, tensor_scale=None):
    """`codes` in the order of the tensor; `scales` as a matrix [across, along]."""
    made = {"recipe": recipe, "type": element, "rows": rows, "columns": columns, "by_columns": by_columns,
            "weight": weight, "codes": hexadecimal(codes), "scales": hexadecimal(scales)}
    if tensor_scale is not None:
        made["tensor_scale"] = hexadecimal(tensor_scale)
    return made


def torchao_float8():
    x = drawn_matrix(32, 64, 1)
    cases = []
    for recipe, dtype, element, axis in (
        ("current", torch.float8_e4m3fn, "f8_e4m3", None),
        ("current", torch.float8_e5m2, "f8_e5m2", None),
        ("rowwise", torch.float8_e4m3fn, "f8_e4m3", -1),
        ("rowwise", torch.float8_e4m3fn, "f8_e4m3", 0),
    ):
        kind = ScalingGranularity.TENSORWISE if axis is None else ScalingGranularity.AXISWISE
        made = hp_tensor_to_float8_dynamic(x, dtype, LinearMMConfig(), scaling_granularity=kind, axiswise_dim=axis,
                                           round_scales_to_power_of_2=axis is not None)
        cases.append(case(recipe, element, 32, 64, axis == 0, False, made._data, made._scale.float().reciprocal()))
    return cases


def torchao_mx():
    x = drawn_matrix(64, 96, 2)
    cases = []
    for by_columns in (False, True):
        scales, codes = to_mx(x.t().contiguous() if by_columns else x, torch.float8_e4m3fn, 32,
                              ScaleCalculationMode.RCEIL)
        cases.append(case("mxfp8", "f8_e4m3", 64, 96, by_columns, False, codes.t() if by_columns else codes, scales))
    return cases


def module_of(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def transformer_engine_blocks(checkout):
    references = checkout / "tests/pytorch/references"
    sys.modules["references"] = types.ModuleType("references")
    module_of(references / "quantize_scale_calc.py", "references.quantize_scale_calc")
    reference = module_of(references / "blockwise_quantizer_reference.py", "references.blockwise")
    quantiser = reference.BlockwiseQuantizerReference
    x = drawn_matrix(40, 136, 3)
    how = {"return_transpose": False, "pow_2_scales": True, "eps": 0.0}
    cases = []
    for by_columns in (False, True):
        rows = x.t().contiguous() if by_columns else x
        padded = torch.nn.functional.pad(rows, (0, -rows.shape[1] % 128))
        codes, scales = quantiser._quantize_vectorwise_reference(padded, torch.float8_e4m3fn, 128, pow_2_scales=True,
                                                                 eps=0.0)
        codes = codes[:, :rows.shape[1]]
        cases.append(case("blockwise", "f8_e4m3", 40, 136, by_columns, False, codes.t() if by_columns else codes,
                          scales))
    square = quantiser._quantize_square_block_tiling(x, torch.float8_e4m3fn, 128, **how)
    for by_columns in (False, True):
        scales = square.scale.t() if by_columns else square.scale
        cases.append(case("blockwise", "f8_e4m3", 40, 136, by_columns, True, square.data, scales))
    return cases


def transformer_engine_nvfp4(checkout):
    folder = checkout / "transformer_engine/pytorch/custom_recipes"
    for name in ("transformer_engine", "transformer_engine.pytorch", "transformer_engine.pytorch.custom_recipes"):
        sys.modules[name] = types.ModuleType(name)
    parts = sys.modules["transformer_engine.pytorch.custom_recipes"]
    tensors = types.ModuleType("quantized_tensor")
    tensors.QuantizedTensorStorage = type("QuantizedTensorStorage", (), {})
    tensors.Quantizer = type("Quantizer", (), {})
    sys.modules["transformer_engine.pytorch.quantized_tensor"] = tensors
    parts.reference_utils = module_of(folder / "reference_utils.py", "reference_utils")
    # Products are not asked for.
    parts.gemm = types.ModuleType("gemm")
    parts.gemm.GEMMType = types.SimpleNamespace(FPROP=None, DGRAD=None, WGRAD=None)
    parts.gemm.__getattr__ = lambda name: type(name, (), {})
    quantiser = module_of(folder / "reference_nvfp4.py", "reference_nvfp4").NVFP4QuantizerRef
    x = drawn_matrix(32, 64, 4)
    amax = x.abs().amax().float()
    # What its cuBLAS multiplies by, from the amax that it keeps.
    tensor_scale = torch.div(1.0, torch.div(torch.tensor(448.0 * 6.0), amax)).reshape(1)
    cases = []
    for weight, by_columns in ((False, False), (False, True), (True, False)):
        rows = x.t().contiguous() if by_columns else x
        packed, scales = quantiser._quantize_blockwise_reference(
            rows, amax, 16, 16 if weight else 1, pow_2_scales=False, eps=0.0)
        codes = torch.stack((packed % 16, packed // 16), dim=-1).reshape(rows.shape)
        codes = (codes.t() if by_columns else codes).contiguous()
        cases.append(case("nvfp4", "f4_e2m1", 32, 64, by_columns, weight, codes[:, ::2] + 16 * codes[:, 1::2],
                          scales, tensor_scale))
    return cases


def main():
    checkout = pathlib.Path(sys.argv[1])
    cases = torchao_float8() + torchao_mx() + transformer_engine_blocks(checkout) + transformer_engine_nvfp4(checkout)
    seeds = {"current": 1, "rowwise": 1, "mxfp8": 2, "blockwise": 3, "nvfp4": 4}
    for one in cases:
        one["seed"] = seeds[one["recipe"]]
    print(json.dumps({"formats": formats(), "cases": cases}, indent=0))


main()
