"""Megatron-Core's own modules on a machine without a GPU: one process, one rank of each group.

Megatron-Core asks CUDA for the current device and for the states of random generators. Here the device is the CPU, the
generators are left as they are, and Apex's kernel of weight gradients is PyTorch's product; the modules themselves are
not changed.
"""

import contextlib
import os
import tempfile
import types
import warnings

os.environ["TORCH_COMPILE_DISABLE"] = "1"  # fused functions run as they are written, which saves the same tensors
warnings.filterwarnings("ignore")

import torch  # noqa: E402, after the environment


class NoGenerators:
    """In place of the states of CUDA's random generators."""

    def fork(self, name=None):
        return contextlib.nullcontext()

    def get_states(self):
        return {}

    def set_states(self, states):
        pass


class NoStream:
    """In place of a CUDA stream or event: on the CPU everything is done when it is asked for."""

    def __init__(self, *args, **kwargs):
        pass

    def __getattr__(self, name):
        return lambda *args, **kwargs: self


def add_weight_gradient(total_input, grad_output, main_grad):
    """In place of Apex's kernel: a weight gradient is added to the main gradient by the product itself."""
    main_grad.addmm_(grad_output.t(), total_input)


def prepare():
    """Makes one rank of all groups, and takes CUDA out of what Megatron-Core asks."""
    torch.cuda.current_device = lambda: torch.device("cpu")
    torch.cuda.current_stream = lambda *args: NoStream()
    torch.cuda.Stream = torch.cuda.Event = NoStream
    torch.Tensor.cuda = lambda self, *args, **kwargs: self
    from megatron.core import parallel_state, tensor_parallel
    from megatron.core.tensor_parallel import layers, random
    from megatron.core.transformer import multi_latent_attention
    from megatron.core.transformer.moe import moe_utils

    rendezvous = tempfile.NamedTemporaryFile(delete=False).name
    torch.distributed.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=0, world_size=1)
    parallel_state.initialize_model_parallel()
    tracker = NoGenerators()
    random.initialize_rng_tracker()
    random._CUDA_RNG_STATE_TRACKER = tracker
    for name in ("_get_cuda_rng_state", "_set_cuda_rng_state"):
        setattr(random, name, lambda *args, **kwargs: torch.get_rng_state())
    tensor_parallel.get_cuda_rng_tracker = lambda *args, **kwargs: tracker
    kernels = types.SimpleNamespace(wgrad_gemm_accum_fp32=add_weight_gradient, wgrad_gemm_accum_fp16=add_weight_gradient)
    layers.fused_weight_gradient_mlp_cuda, layers._grad_accum_fusion_available = kernels, True

    # Names that are imported only where Transformer Engine is.
    moe_utils.te_general_gemm = None
    multi_latent_attention.TELinear = multi_latent_attention.TELayerNormColumnParallelLinear = type(None)
