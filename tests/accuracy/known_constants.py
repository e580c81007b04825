"""What each number of a shipped system or software file should be: by its source, or by a count of what it consists of,
not by the file. (file without .yaml, key, value in units of SI: bytes, seconds, bytes or FLOPs per second.) A file that is
not here, or lacks a key here, has the value of its base, or of the file that it was made from. What a system consists of is
in known_hardware.py. Imported by constants_test.py.
"""
import statistics

from known_hardware import GB, HARDWARE, MB, GiB, KiB, MiB, ms, us

MADE_FROM = {"a100-4hdr": "selene-a100", "aws-p5": "dgx-h100"}  # without a `base` in the file

# Guesses have no source outside: they stay what they were called guesses for.
CALIBRATION = (
    # Best products seen in public (stas00/ml-engineering) over the peak, in TFLOP/s. Selene's was
    # fitted to table 4: ten timings of the EleutherAI cookbook give 0.852.
    ("selene-a100", "calibration.gemm_efficiency", 0.852),
    ("a100-4hdr", "calibration.gemm_efficiency", 271.2 / 312),
    ("a100-4hdr", "calibration.overlap_slowdown", 0.51),  # of selene-a100, the same node
    ("a100-pcie-80", "calibration.gemm_efficiency", 252.9 / 312),
    ("l40s", "calibration.gemm_efficiency", 0.6),
    ("mi250x", "calibration.gemm_efficiency", 0.6),
    ("mi300x", "calibration.gemm_efficiency", 668.4 / 1307.4),
    ("dgx-h100", "calibration.gemm_efficiency", 794.5 / 989.5),
    ("b200-hgx", "calibration.gemm_efficiency", 0.547),
    ("b300-hgx", "calibration.gemm_efficiency", 0.547),  # of b200-hgx
    # The same of products of float8_e4m3fn; an MI300X' as those in 16 bits.
    ("dgx-h100", "calibration.low_gemm_efficiency", 1550 / 1979),
    ("b200-hgx", "calibration.low_gemm_efficiency", 3432.5 / 4500),
    ("b300-hgx", "calibration.low_gemm_efficiency", 3353.3 / 4500),
    ("gb200-nvl72", "calibration.low_gemm_efficiency", 3615.6 / 5000),
    ("mi300x", "calibration.low_gemm_efficiency", 668.4 / 1307.4),
    # And of those in NVFP4, M = N = K = 6144.
    ("b200-hgx", "calibration.fp4_gemm_efficiency", 5500 / 9000),
    # Casts of torchao's table, the median of bytes over time: rows x columns, microseconds.
    ("b200-hgx", "calibration.quantise_efficiency", statistics.median(
        rows * columns * (2 + 1 + 1 / 32) / (time * us) / 8e12
        for rows, columns, time in ((131072, 7168, 525.3), (8 * 2048, 7168, 65.4), (131072, 2048, 144.4),
                                    (8 * 2048, 7168, 70.7), (131072, 2048, 141.5), (131072, 7168, 472.2)))),
    # Attention of DeepSeek-V3 at 4,096 tokens: arXiv:2603.07685, table 9; on B200 SimuMax' file, which counts the whole square.
    ("dgx-h100", "calibration.latent_flash_forward_efficiency", 553 / 989.5),
    ("dgx-h100", "calibration.latent_flash_backward_efficiency", 422 / 989.5),
    ("b200-hgx", "calibration.latent_flash_forward_efficiency", 0.8306 / 2),
    ("b200-hgx", "calibration.latent_flash_backward_efficiency", 0.6426 / 2),
    ("gb200-nvl72", "calibration.latent_flash_forward_efficiency", 1324 / 2500),
    ("gb200-nvl72", "calibration.latent_flash_backward_efficiency", 1083 / 2500),
    # 614 TFLOP/s sustained, fitted by a prototype of others on runs with one tensor rank.
    ("aws-p5", "calibration.gemm_efficiency", 614 / 989.5),
    ("selene-a100", "calibration.gemm_small_tile", 0.93),
    ("selene-a100", "calibration.gemm_tile_prologue", 1 * us),
    ("dgx-h100", "calibration.gemm_small_tile", 0.93),
    ("dgx-h100", "calibration.gemm_tile_prologue", 1 * us),
    # FlashAttention-2 on A100, FlashAttention-3 and -2 on H100, TFLOP/s read off their figures.
    ("selene-a100", "calibration.flash_forward_efficiency", 0.55),
    ("selene-a100", "calibration.flash_backward_efficiency", 0.5),
    ("dgx-h100", "calibration.flash_forward_efficiency", 445 / 989.5),
    ("dgx-h100", "calibration.flash_backward_efficiency", 396 / 989.5),
    ("aws-p5", "calibration.flash_forward_efficiency", (284 + 319) / 2 / 989.5),
    ("aws-p5", "calibration.flash_backward_efficiency", 0.8 * (284 + 319) / 2 / 989.5),
    ("b200-hgx", "calibration.flash_forward_efficiency", 0.366),
    ("b200-hgx", "calibration.flash_backward_efficiency", 0.346),
    ("mi250x", "calibration.flash_forward_efficiency", 0.3),
    ("mi250x", "calibration.flash_backward_efficiency", 0.25),
    ("mi300x", "calibration.flash_forward_efficiency", 0.3),
    ("mi300x", "calibration.flash_backward_efficiency", 0.25),
    ("selene-a100", "calibration.kernel_launch", 3 * us),
    ("selene-a100", "calibration.stream_efficiency", 0.85),
    ("dgx-h100", "calibration.kernel_launch", 3 * us),
    ("dgx-h100", "calibration.stream_efficiency", 0.85),
    ("aws-p5", "calibration.stream_efficiency", 0.88),
    # 1.34 GB in 1.2 ms of 1555 GB/s.
    ("selene-a100", "calibration.dropout_efficiency", 1.34e9 / 1.2e-3 / 1555e9),
    ("dgx-h100", "calibration.dropout_efficiency", 1.34e9 / 1.2e-3 / 1555e9),
    # Calculon's processor usage of networks and of NVLink.
    ("selene-a100", "calibration.network_slowdown", 0.02),
    ("dgx-h100", "calibration.network_slowdown", 0.02),
    ("dgx-h100", "calibration.overlap_slowdown", 0.25),
    ("aws-p5", "calibration.overlap_slowdown", 0.15),
    ("aws-p5", "calibration.network_slowdown", 0.15),
    ("selene-a100", "calibration.p2p_synchronisation", 40 * us),
    ("selene-a100", "calibration.iteration_overhead", 5 * ms),
    ("dgx-h100", "calibration.p2p_synchronisation", 40 * us),
    ("dgx-h100", "calibration.iteration_overhead", 5 * ms),
    ("selene-a100", "calibration.workspace", 4 * MiB),
    ("dgx-h100", "calibration.workspace", 32 * MiB),
)

# Passes over a tensor are counted in the framework's modules, as its file says.
SOFTWARE = (
    ("nanotron", "host.backward", 1.4),
    ("nanotron", "host.message", 2 * (40 + 45) * us),
    ("nanotron", "host.iteration", 12 * ms),
    ("nanotron", "kernels.traffic.swiglu", 5 / 3),
    # Passes: two products, silu and a concatenation, over those of one kernel (two read, one of 2 f read, one written).
    ("nanotron", "kernels.traffic.swiglu_backward", (3 + 3 + 3 + 4) / 5),
    # Copy of q, k and v, concatenation of k and v, another copy, rotation of q and k; over queries and keys read and written.
    ("nanotron", "kernels.traffic.rotary", (6 + 4 + 4 + 4) / 4),
    ("nanotron", "kernels.traffic.rotary_backward", (4 + 4 + 6) / 4),
    ("nanotron", "kernels.traffic.norm_weight_gradient", 0.001),
    # Into a flat tensor for each rank, out of PyTorch's, and back to the parameters: read and written.
    ("nanotron", "replicas.gather_traffic", 3 * 2),
    ("nanotron", "kernels.accumulation_bytes", 2 + 2 + 4 + 4),
    ("nanotron", "replicas.bucket", 25 * MB / 2 * 4),
    ("nanotron", "memory.kept.swiglu", 1),
    ("nanotron", "memory.held.exponentials", 1),
    ("nanotron", "memory.temporary.embedding", 1),
    ("nanotron", "memory.temporary.rotary", 6 / 4),
    ("nanotron", "memory.temporary.flash_attention_backward", 6 / 6),
    ("nanotron", "memory.temporary.concatenate", 1),
    ("nanotron", "memory.replica_gradient_bytes", 2),
    ("nanotron", "memory.first_replica_bucket", 1 * MiB),
    ("nanotron", "memory.replica_bucket", 25 * MiB),
    ("nanotron", "memory.workspace", 32 * MiB),
    ("nanotron", "memory.host_lead", 1024),
    ("nanotron", "memory.kernels_per_op", 31 / 14),
    # PyTorch's default group, and one of its own; NVLS of NCCL 2.18.1: 16 channels, each two buffers of 4 MiB and two of 2 MiB.
    ("nanotron", "communicators.of_all", 2),
    ("nanotron", "communicators.multicast", 16 * (2 * 4 + 2 * 2) * MiB),
    ("nanotron", "communicators.multicast_channels", 16),
    # A prototype of others fitted 0.214 ms per rank within a node, 1.26 times as much beyond.
    ("nanotron-checked", "host.collective_per_rank", 214 * us),
    ("nanotron-checked", "host.collective_per_remote_rank", 1.26 * 214 * us),
    ("megatron-deepspeed-2022", "host.backward", 1.4),
    ("megatron-deepspeed-2022", "kernels.fused_softmax_multiple", 4),
    ("megatron-deepspeed-2022", "replicas.gradient_bytes", 2),
    ("megatron-2021", "host.kernel", 42 * us),
    ("megatron-2021", "host.gemm", 42 * us),
    ("megatron-2021", "host.collective", 42 * us),
    ("megatron-2021", "host.backward", 1.4),
    ("megatron-2021", "replicas.gradient_bytes", 2),
    ("megatron-2022", "host.kernel", 42 * us),
    ("megatron-2022", "host.gemm", 42 * us),
    ("megatron-2022", "host.collective", 42 * us),
    ("megatron-2022", "host.backward", 1.4),
    ("megatron-2022-memory", "memory.temporary.bias_add", 1),
    # Two fp32 masks beside one of bytes; the rows of the positions, and the sum, beside the rows of the words.
    ("megatron-2022-memory", "memory.temporary.make_causal_mask", 4 + 4),
    ("megatron-2022-memory", "memory.temporary.add_positions", 1 + 1),
    ("megatron-2022-memory", "memory.global_buffer.all_gather", 1),
    ("megatron-2022-memory", "memory.global_buffer.causal_softmax", 1),
    ("megatron-2022-memory", "memory.global_buffer.causal_softmax_dropout", 1),
    ("megatron-2022-memory", "memory.host_lead", 1024),
    ("megatron-2022-memory", "memory.kernels_per_op", 19 / 19),
    # Kernels and calls of Megatron-LM d98e8a64 and Transformer Engine d0067d0d, op by op.
    *(("megatron-core", f"host.launches.{kind}", launches) for kind, launches in (
        ("bias_add", 0.001), ("flash_attention", 1 + 1), ("flash_attention_backward", 1 + 1 + 1 + 1), ("bias_dropout_add", 1 + 1),
        ("norm_weight_gradient", 1 + 2), ("rotary", 2), ("rotary_backward", 2), ("embedding", 2 + 2 + 1 + 1),
        ("embedding_backward", 4), ("exponentials", 8), ("cross_entropy", 4), ("cross_entropy_backward", 5),
        ("route", 3 + 2 + 1 + 2 * (1 + 6) + 2), ("route_backward", 8), ("count_choices", 6), ("router_loss", 4 + 1),
        ("router_loss_backward", 4), ("permute", 2 + 6 + 1 + 1 + 2 + 2), ("permute_backward", 10), ("unpermute", 10),
        ("unpermute_backward", 3), ("weighted_activation", 2), ("weighted_activation_backward", 4), ("add_log_sums", 3),
        ("add_rescaled_context", 3), ("rescale_context", 2), ("grouped_bias_add", 0.001), ("grouped_bias_gradient", 0.001),
        ("weighted_bias_add", 1 + 1), ("weighted_bias_gradient", 1 + 1 + 1 + 1), ("bias_probability_gradient", 1 + 1 + 1))),
    # TEGroupedMLP._apply_bias, bytes of an element, forward and backward: products and sums in 32 bits.
    ("megatron-core", "kernels.traffic.grouped_bias_add", 0.001),
    ("megatron-core", "kernels.traffic.grouped_bias_gradient", 0.001),
    ("megatron-core", "kernels.traffic.weighted_bias_add", (4 + (2 + 4 + 4) + (4 + 4) + (4 + 2)) / (2 + 2)),
    ("megatron-core", "kernels.traffic.weighted_bias_gradient", ((4 + 4) + 4) / 2),
    ("megatron-core", "kernels.traffic.bias_probability_gradient", ((2 + 4) + (4 + 2) + (2 + 2) + (4 + 4) + 4) / 2),
    *(("megatron-core", f"host.calls.{kind}", calls) for kind, calls in (
        ("gemm", 4 / 3), ("grouped_gemm", 4 / 3), ("flash_attention", 2 + 1), ("flash_attention_backward", 1),
        ("causal_softmax", 3 + 1), ("causal_softmax_backward", 1), ("dropout", 1), ("bias_dropout_add", 1 + 8 / 2),
        ("dropout_backward", 1), ("gelu", 1 + 1), ("gelu_backward", 1 + 1), ("swiglu", 1 + 1), ("swiglu_backward", 1 + 1),
        ("relu", 1), ("relu_backward", 1), ("rotary", 2), ("rotary_backward", 2), ("embedding", 3), ("exponentials", 1),
        ("cross_entropy_backward", 1), ("concatenate", 1), ("norm_weight_gradient", 2), ("bias_gradient", 1),
        ("heads_norm", 3), ("heads_norm_backward", 2), ("route", 4), ("route_backward", 2), ("permute", 2),
        ("permute_backward", 1), ("unpermute", 1), ("unpermute_backward", 1), ("weighted_activation", 1 + 1),
        ("weighted_activation_backward", 1 + 1), ("add_log_sums", 1), ("rescale_context", 1))),
    ("megatron-core", "host.step_launches", 1),
    # cuBLAS's for the handle of each thread, Transformer Engine's for both, and that of its grouped products.
    ("megatron-core", "memory.workspace.0", (2 * 4096 + 8 * 16) * KiB),  # PyTorch's :4096:2:16:8
    ("megatron-core", "memory.workspace.9", 32 * MiB),
    ("megatron-core", "memory.shared_workspace.0", 4 * MiB),
    ("megatron-core", "memory.shared_workspace.9", 32 * MiB + 1024),
    ("megatron-core", "memory.grouped_workspace.0", 4 * 4 * MiB),  # one of these for each of four streams
    ("megatron-core", "memory.grouped_workspace.9", 4 * (32 * MiB + 1024)),
    ("megatron-core-local", "memory.shared_workspace", 0),
    ("megatron-core-local", "memory.router_workspace.0", 4 * MiB),
    ("megatron-core-local", "memory.router_workspace.9", 32 * MiB + 1024),
    ("megatron-core-local", "memory.global_buffer.causal_softmax", 1),  # input and output of a product
    ("megatron-core-local", "memory.global_buffer.all_gather", 1),
    ("megatron-core", "memory.temporary.weighted_bias_add", (4 + 4) / 2),  # bytes: sums, their concatenation; a row in 16 bits
    ("megatron-core", "memory.held_of_prediction.cross_entropy", 2 / 4),  # bytes: logits of 16 bits, their softmax of 32
    # DecoupledAdamW in fp32: two kernels for each moment, root, division, epsilon, update; over one that reads four tensors
    # and writes three.
    ("fsdp1", "kernels.traffic.adam", (8 + 12 + 8 + 12 + 8 + 8 + 8 + 16) / (4 * 7)),
    # NCCL's channels over the multiprocessors of A100 and H100.
    ("fsdp1", "replicas.unit_slowdown", (24 / 108 + 24 / 132) / 2),
    ("fsdp1", "memory.workspace.0", (2 * 4096 + 8 * 16) * KiB),
    ("fsdp1", "memory.workspace.9", 32 * MiB),
    ("torchtitan", "replicas.unit_slowdown", (24 / 108 + 24 / 132) / 2),
    ("torchtitan", "memory.workspace.0", (2 * 4096 + 8 * 16) * KiB),
    ("torchtitan", "memory.workspace.9", 32 * MiB),
    # FlashAttention-3 over FlashAttention-2, as dgx-h100 and aws-p5 have them.
    ("torchtitan", "kernels.time.flash_attention.9", 445 / ((284 + 319) / 2)),
    ("torchtitan", "kernels.time.flash_attention_backward.9", 396 / (0.8 * (284 + 319) / 2)),
    # Bytes per element in 16 bits, and of RMSNorm and rotary positions in fp32; over those of one kernel.
    ("torchtitan-eager", "kernels.traffic.norm", (6 + 8 + 4 + 8 + 6 + 4) / 4),
    ("torchtitan-eager", "kernels.traffic.norm_backward", (4 + 6 + (8 + 12 + 4) + 4 + (8 + 8 + 12) + 12 + 6) / 6),
    ("torchtitan-eager", "kernels.traffic.norm_weight_gradient", (6 + 2) / 4),
    ("torchtitan-eager", "kernels.traffic.rotary", (6 + 8 + 6 + 2 * (0.5 + 2) * 32 / 40) / 4),
    ("torchtitan-eager", "kernels.traffic.rotary_backward", (6 + 8 + 6 + 2 * (2 + 0.5) * 32 / 40) / 4),
    ("torchtitan-eager", "kernels.traffic.swiglu", (4 + 6) / 6),
    ("torchtitan-eager", "kernels.traffic.swiglu_backward", (2 * 6 + 6) / (2 * 5)),
    ("torchtitan-eager", "kernels.traffic.concatenate", (2 * 6 + 6) / (4 * 1.5)),
)

# Fitted to measured runs and without a source beside them: accuracy_test.py notices what changes.
FITTED = {
    ("selene-a100", "calibration.overlap_slowdown"),
    ("aws-p5", "network.latency"),
    ("dgx-h100", "node.host_adam"), ("dgx-h100", "node.host_speed"), ("gb200-nvl72", "node.host_speed"), ("gh200", "node.host_speed"),
    ("megatron-core", "host.kernel"), ("megatron-core", "host.gemm"), ("megatron-core", "host.call"),
    ("megatron-core", "host.collective"), ("megatron-core", "host.pass"),
    ("nanotron", "host.kernel"), ("nanotron", "host.gemm"), ("nanotron", "host.collective"),
    ("nanotron", "replicas.call"), ("nanotron", "replicas.gather_piece"),
    ("nanotron-checked", "replicas.call_per_rank"),
    ("fsdp1", "kernels.time.gemm.0"), ("fsdp1", "kernels.time.gemm.9"),
    ("fsdp1", "kernels.time.flash_attention.0"), ("fsdp1", "kernels.time.flash_attention.9"),
    ("fsdp1", "kernels.time.flash_attention_backward.0"), ("fsdp1", "kernels.time.flash_attention_backward.9"),
    ("torchtitan", "kernels.time.gemm.0"), ("torchtitan", "kernels.time.gemm.9"),  # those of fsdp1
    ("megatron-deepspeed-2022", "host.kernel"), ("megatron-deepspeed-2022", "host.gemm"),
    ("megatron-deepspeed-2022", "host.collective"), ("megatron-deepspeed-2022", "host.collective_per_rank"),
    ("megatron-deepspeed-2022", "host.unfused_softmax"), ("megatron-deepspeed-2022", "host.message"),
}

# Bus bandwidths in GB/s of all-reduces of 41, 410 and 1024 MiB on 2 to 8 A100: the second timing of each size in
# VIA-Research/vTrain, trace/a100 (the tables of the systems hold the first one).
ALL_REDUCES = {
    2: (153.15, 187.67, 196.89), 3: (174.86, 204.75, 211.74), 4: (180.84, 212.81, 221.37), 5: (190.46, 217.62, 224.66),
    6: (178.19, 220.68, 226.89), 7: (177.51, 222.25, 226.68), 8: (190.28, 220.41, 229.25),
}
