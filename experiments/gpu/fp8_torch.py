"""Measures in PyTorch what fp8_products measures, attention, and a whole layer in bf16 and with its products in FP8.

usage: fp8_torch.py [--cpu] [KIND...]     KIND: product, copy, attention, layer; all unless named
                                          --cpu: small shapes, nothing compiled; for a machine without a GPU

The layer is Llama 3 70B's, one of eight tensor ranks, one sequence of 8192 tokens, without collectives. FP8 has one
scale for a tensor (torch._scaled_mm; forward e4m3, gradients e5m2), found anew for each product as Transformer
Engine's current scaling does; gradients of weights come in bf16 and are not accumulated in fp32. Writes JSON, a line for
each thing that was measured.
"""

import json
import statistics
import sys
import time

import torch

ON_CPU = "--cpu" in sys.argv
DEVICE = "cpu" if ON_CPU else "cuda"
TOKENS, HIDDEN, HEADS, HEAD, FFN = (256, 256, 2, 64, 256) if ON_CPU else (8192, 8192, 8, 128, 3584)
LINEARS = {"qkv": (HIDDEN, (HEADS + 2) * HEAD), "projection": (HEADS * HEAD, HIDDEN), "gate_up": (HIDDEN, 2 * FFN),
           "down": (FFN, HIDDEN)}
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
compiled = (lambda function: function) if ON_CPU else torch.compile


def seconds(run, repeats=11):
    """The median of what a call takes; None if PyTorch refuses it."""
    try:
        run()
    except (RuntimeError, ValueError, NotImplementedError) as error:
        print(f"{type(error).__name__}: {str(error).splitlines()[0]}", file=sys.stderr)
        return None
    times = []
    for _ in range(2 if ON_CPU else repeats):
        if ON_CPU:
            begin = time.perf_counter()
            run()
            times.append(time.perf_counter() - begin)
            continue
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        run()
        end.record()
        end.synchronize()
        times.append(1e-3 * begin.elapsed_time(end))
    return statistics.median(times)


@compiled
def quantise(x, kind):
    """x in 8 bits, its transpose, and the inverse of their scale."""
    scale = torch.finfo(kind).max / x.abs().amax().float().clamp(min=1e-12)
    q = (x.float() * scale).to(kind)
    return q, q.t().contiguous(), scale.reciprocal()


def product(a, b, fast):
    """A B^T of two results of quantise(), each (values with k innermost, inverse scale), in bf16."""
    return torch._scaled_mm(a[0], b[0].t(), scale_a=a[1], scale_b=b[1], out_dtype=torch.bfloat16, use_fast_accum=fast)


def products():
    for name, (inner, outer) in LINEARS.items():
        x, w, g = (torch.randn(shape, dtype=torch.bfloat16, device=DEVICE)
                   for shape in ((TOKENS, inner), (outer, inner), (TOKENS, outer)))
        (x8, x8t, sx), (w8, w8t, sw), (g8, g8t, sg) = quantise(x, E4M3), quantise(w, E4M3), quantise(g, E5M2)
        yield {"linear": name, "pass": "forward", "bf16_seconds": seconds(lambda: x @ w.t()),
               "tensor_seconds": seconds(lambda: product((x8, sx), (w8, sw), True))}
        yield {"linear": name, "pass": "input_gradient", "bf16_seconds": seconds(lambda: g @ w),
               "tensor_seconds": seconds(lambda: product((g8, sg), (w8t, sw), False))}
        yield {"linear": name, "pass": "weight_gradient", "bf16_seconds": seconds(lambda: g.t() @ x),
               "tensor_seconds": seconds(lambda: product((g8t, sg), (x8t, sx), False))}


def copies():
    for name, (inner, outer) in LINEARS.items():
        for tensor, shape, kind in (("input", (TOKENS, inner), E4M3), ("weight", (outer, inner), E4M3),
                                    ("gradient", (TOKENS, outer), E5M2)):
            x = torch.randn(shape, dtype=torch.bfloat16, device=DEVICE)
            yield {"linear": name, "tensor": tensor, "recipe": "tensor", "elements": x.numel(),
                   "seconds": seconds(lambda: quantise(x, kind))}


def attentions():
    """Causal attention of the layer's heads, which share keys, forward and backward alone."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q, k, v = (torch.randn(1, heads, TOKENS, HEAD, dtype=torch.bfloat16, device=DEVICE, requires_grad=True)
               for heads in (HEADS, 1, 1))
    gradient = torch.randn_like(q)

    def forward():
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

    for name, backend in (("flash", SDPBackend.FLASH_ATTENTION), ("cudnn", SDPBackend.CUDNN_ATTENTION)):
        with sdpa_kernel(backend):
            entry = {"backend": name, "forward_seconds": seconds(forward), "backward_seconds": None}
            if entry["forward_seconds"] is not None:
                context = forward()
                entry["backward_seconds"] = seconds(
                    lambda context=context: torch.autograd.grad(context, (q, k, v), gradient, retain_graph=True))
        yield entry


class Fp8Linear(torch.autograd.Function):
    """x W^T with all three products in FP8."""

    @staticmethod
    def forward(context, x, w):
        x8, x8t, sx = quantise(x, E4M3)
        w8, w8t, sw = quantise(w, E4M3)
        context.save_for_backward(x8t, sx, w8t, sw)
        return product((x8, sx), (w8, sw), True)

    @staticmethod
    def backward(context, gradient):
        x8t, sx, w8t, sw = context.saved_tensors
        g8, g8t, sg = quantise(gradient.contiguous(), E5M2)
        return product((g8, sg), (w8t, sw), False), product((g8t, sg), (x8t, sx), False)


@compiled
def rms_norm(x, weight):
    wide = x.float()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * weight


@compiled
def rotate(x, cosine, sine):
    first, second = x.float().chunk(2, -1)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), -1).to(x.dtype)


@compiled
def swiglu(x):
    gate, up = x.chunk(2, -1)
    return torch.nn.functional.silu(gate) * up


class Layer(torch.nn.Module):
    def __init__(self, linear):
        super().__init__()
        self.linear = linear
        self.weights = torch.nn.ParameterDict({
            name: torch.nn.Parameter(0.02 * torch.randn(outer, inner, dtype=torch.bfloat16, device=DEVICE))
            for name, (inner, outer) in LINEARS.items()})
        self.norms = torch.nn.ParameterList(
            torch.nn.Parameter(torch.ones(HIDDEN, dtype=torch.bfloat16, device=DEVICE)) for _ in range(2))
        angle = torch.outer(torch.arange(TOKENS), 500000.0 ** -(torch.arange(0, HEAD, 2) / HEAD)).to(DEVICE)
        self.angles = angle.cos(), angle.sin()

    def forward(self, x):
        def apply(name, value):
            return self.linear(value, self.weights[name])

        qkv = apply("qkv", rms_norm(x, self.norms[0])).view(TOKENS, HEADS + 2, HEAD).transpose(0, 1)
        q, k, v = qkv[:HEADS], qkv[HEADS:HEADS + 1], qkv[HEADS + 1:]
        q, k = rotate(q, *self.angles), rotate(k, *self.angles)
        context = torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True,
                                                                   enable_gqa=True)
        x = x + apply("projection", context[0].transpose(0, 1).reshape(TOKENS, HEADS * HEAD))
        return x + apply("down", swiglu(apply("gate_up", rms_norm(x, self.norms[1]))))


def layers():
    for name, linear in (("bf16", torch.nn.functional.linear), ("fp8", Fp8Linear.apply)):
        layer = Layer(linear)
        x = torch.randn(TOKENS, HIDDEN, dtype=torch.bfloat16, device=DEVICE, requires_grad=True)
        gradient = torch.randn(TOKENS, HIDDEN, dtype=torch.bfloat16, device=DEVICE)

        def both(layer=layer, x=x, gradient=gradient):
            layer(x).backward(gradient)

        forward, together = seconds(lambda layer=layer, x=x: layer(x)), seconds(both)
        yield {"precision": name, "forward_seconds": forward,
               "backward_seconds": together - forward if forward and together else None}


def main():
    torch.manual_seed(1)
    if not ON_CPU:
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    device = "cpu" if ON_CPU else torch.cuda.get_device_name()
    print(json.dumps({"kind": "facts", "torch": torch.__version__, "device": device, "tokens": TOKENS}), flush=True)
    kinds = {"product": products, "copy": copies, "attention": attentions, "layer": layers}
    for kind in [word for word in sys.argv[1:] if word in kinds] or kinds:
        for entry in kinds[kind]():
            print(json.dumps({"kind": kind, **entry}), flush=True)


main()
