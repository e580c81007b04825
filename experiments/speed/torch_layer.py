"""PyTorch's side of layer.py: the same layer in eager mode, once for each line of standard input.

usage: torch_layer.py THREADS

Prints PyTorch's version, then for each line the seconds of forward and backward. The layer of the GPT family with
h 1024, a 16, s 512, b 4: float, causal attention that keeps its scores, dropout 0.1 with stored masks, GELU in its
tanh form, biases. Of the ways to write it in eager mode this is the fastest that was found: scale and causal mask
are part of the product of queries and keys, gradients of parameters are handed over and not added up.
"""

import math
import sys
import time

import torch
from torch.nn import functional as F

HIDDEN, HEADS, SEQUENCE, BATCH, DROPOUT = 1024, 16, 512, 4, 0.1


def parameter(*shape):
    return torch.nn.Parameter(torch.randn(*shape) * 0.02)


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        h = HIDDEN
        self.norm1, self.norm2 = torch.nn.LayerNorm(h), torch.nn.LayerNorm(h)
        self.qkv, self.qkv_bias = parameter(3 * h, h), parameter(3 * h)
        self.out, self.out_bias = parameter(h, h), parameter(h)
        self.up, self.up_bias = parameter(4 * h, h), parameter(4 * h)
        self.down, self.down_bias = parameter(h, 4 * h), parameter(h)
        mask = torch.full((SEQUENCE, SEQUENCE), float("-inf")).triu_(1)
        self.register_buffer("mask", mask.unsqueeze(0))

    def attention(self, x):
        d = HIDDEN // HEADS
        qkv = F.linear(x, self.qkv, self.qkv_bias).view(SEQUENCE, BATCH * HEADS, 3 * d)
        q, k, v = (part.transpose(0, 1) for part in qkv.split(d, dim=-1))
        scores = torch.baddbmm(self.mask, q, k.transpose(1, 2), alpha=1 / math.sqrt(d))
        kept = F.dropout(torch.softmax(scores, dim=-1), DROPOUT)
        return torch.bmm(kept, v).transpose(0, 1).reshape(SEQUENCE, BATCH, HIDDEN)

    def forward(self, x):
        x = x + F.dropout(F.linear(self.attention(self.norm1(x)), self.out, self.out_bias), DROPOUT)
        y = F.gelu(F.linear(self.norm2(x), self.up, self.up_bias), approximate="tanh")
        return x + F.dropout(F.linear(y, self.down, self.down_bias), DROPOUT)


def main(threads):
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    layer = Layer()
    x = torch.randn(SEQUENCE, BATCH, HIDDEN, requires_grad=True)
    gradient = torch.randn(SEQUENCE, BATCH, HIDDEN) * 0.1
    print(torch.__version__, flush=True)
    for _ in sys.stdin:
        layer.zero_grad(set_to_none=True)
        x.grad = None
        begin = time.perf_counter()
        y = layer(x)
        middle = time.perf_counter()
        y.backward(gradient)
        end = time.perf_counter()
        del y
        print(middle - begin, end - middle, flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
