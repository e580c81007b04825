"""What each number of accelerators, nodes, networks and devices in a shipped system file should be: by its source, or by a
count of what it consists of, not by the file. (file without .yaml, key, value in units of SI: bytes, seconds, bytes or FLOPs
per second.)
"""
us, ms = 1e-6, 1e-3
MB, GB = 1e6, 1e9
KiB, MiB, GiB = 2**10, 2**20, 2**30
tera = 1e12
one_stack = 1024  # data lines of an HBM stack


def peak(processors, multiply_adds, gigahertz):
    """Two operations for each multiply-add of all multiprocessors in a cycle."""
    return processors * multiply_adds * 2 * gigahertz * 1e9


def memory(lines, gigabits):
    """Bytes per second of memory with so many data lines, each of so many Gbit/s."""
    return lines * gigabits / 8 * 1e9


def without_copies(gigabytes, share):
    """A rate in GB/s of nanotron's benchmark, which also moves each byte twice at 0.88 of 3.35 TB/s. The ring moves `share`."""
    return 1e9 / (1 / gigabytes - 2 / share / (0.88 * 3350))


def adapter(gigabits):
    return gigabits / 8 * 1e9


# Boost clocks and multiply-adds of the makers' architecture papers: a tensor core of A100 does 256 multiply-adds of 16-bit
# numbers in a cycle, four a multiprocessor; H100 twice as many; a compute unit of MI200 512 and of MI300X 1024.
HARDWARE = (
    # A100-SXM4: five of six stacks, 1593 and 1215 MHz, two bits per cycle.
    ("selene-a100", "accelerator.peak.fp16", peak(108, 4 * 256, 1.41)),
    ("selene-a100", "accelerator.peak.bf16", peak(108, 4 * 256, 1.41)),
    ("selene-a100", "accelerator.peak.fp32", peak(108, 64, 1.41)),
    ("selene-a100", "accelerator.peak.fp64", peak(108, 64, 1.41)),
    ("selene-a100", "accelerator.multiprocessors", 108),
    ("selene-a100", "accelerator.memory", 81920 * MiB),
    ("selene-a100", "accelerator.bandwidth", memory(5 * one_stack, 2 * 1.593)),
    ("hgx-a100-40", "accelerator.memory", 40960 * MiB),
    ("hgx-a100-40", "accelerator.bandwidth", memory(5 * one_stack, 2 * 1.215)),
    ("a100-pcie-80", "accelerator.bandwidth", memory(5 * one_stack, 2 * 1.512)),
    ("a100-pcie-40", "accelerator.memory", 40960 * MiB),
    ("a100-pcie-40", "accelerator.bandwidth", memory(5 * one_stack, 2 * 1.215)),
    ("aws-p4de", "accelerator.memory", 81920 * MiB),
    ("aws-p4de", "accelerator.bandwidth", memory(5 * one_stack, 2 * 1.593)),
    # H100: SXM5 at 1.83 GHz, 1.98 GHz outside tensor cores, HBM3; PCIe with HBM2e.
    ("dgx-h100", "accelerator.peak.fp16", peak(132, 4 * 512, 1.83)),
    ("dgx-h100", "accelerator.peak.bf16", peak(132, 4 * 512, 1.83)),
    ("dgx-h100", "accelerator.peak.fp32", peak(132, 128, 1.98)),
    ("dgx-h100", "accelerator.peak.fp64", peak(132, 128, 1.98)),
    ("dgx-h100", "accelerator.multiprocessors", 132),
    ("dgx-h100", "accelerator.memory", 81920 * MiB),
    ("dgx-h100", "accelerator.bandwidth", memory(5 * one_stack, 5.23)),
    ("h100-pcie", "accelerator.peak.fp16", peak(114, 4 * 512, 1.62)),
    ("h100-pcie", "accelerator.peak.bf16", peak(114, 4 * 512, 1.62)),
    ("h100-pcie", "accelerator.peak.fp32", peak(114, 128, 1.755)),
    ("h100-pcie", "accelerator.peak.fp64", peak(114, 128, 1.755)),
    ("h100-pcie", "accelerator.multiprocessors", 114),
    ("h100-pcie", "accelerator.bandwidth", memory(5 * one_stack, 3.19)),
    ("h200", "accelerator.memory", 143771 * MiB),
    ("h200", "accelerator.bandwidth", memory(6 * one_stack, 6.25)),
    ("aws-p5e", "accelerator.memory", 143771 * MiB),
    ("aws-p5e", "accelerator.bandwidth", memory(6 * one_stack, 6.25)),
    # Blackwell: the racks' sums over 72, half of them where structured sparsity is counted.
    ("b200-hgx", "accelerator.peak.fp16", 36e15 / 8 / 2),
    ("b200-hgx", "accelerator.peak.bf16", 36e15 / 8 / 2),
    ("b200-hgx", "accelerator.peak.fp32", 600 * tera / 8),
    ("b200-hgx", "accelerator.peak.fp64", 296 * tera / 8),
    ("b200-hgx", "accelerator.multiprocessors", 148),
    ("b200-hgx", "accelerator.memory", 1440 * GB / 8),
    ("b200-hgx", "accelerator.bandwidth", 64 * tera / 8),
    ("gb200-nvl72", "accelerator.peak.fp16", 360e15 / 72 / 2),
    ("gb200-nvl72", "accelerator.peak.bf16", 360e15 / 72 / 2),
    ("gb200-nvl72", "accelerator.peak.fp32", 5760 * tera / 72),
    ("gb200-nvl72", "accelerator.peak.fp64", 2880 * tera / 72),
    ("gb200-nvl72", "accelerator.memory", 13.4 * tera / 72),
    ("gb300-nvl72", "accelerator.peak.fp16", 360e15 / 72 / 2),
    ("gb300-nvl72", "accelerator.peak.bf16", 360e15 / 72 / 2),
    ("gb300-nvl72", "accelerator.peak.fp32", 5760 * tera / 72),
    ("gb300-nvl72", "accelerator.memory", 20 * tera / 72),
    # Ada: 142 multiprocessors of 128 cores at 2.52 GHz, 384 lines of GDDR6.
    ("l40s", "accelerator.peak.fp16", peak(142, 4 * 128, 2.52)),
    ("l40s", "accelerator.peak.bf16", peak(142, 4 * 128, 2.52)),
    ("l40s", "accelerator.peak.fp32", peak(142, 128, 2.52)),
    ("l40s", "accelerator.multiprocessors", 18176 / 128),
    ("l40s", "accelerator.memory", 48 * GB),
    ("l40s", "accelerator.bandwidth", memory(384, 18)),
    # AMD: one of the two dies of an MI250X; eight stacks of 24 GB on an MI300X.
    ("mi250x", "accelerator.peak.fp16", peak(110, 512, 1.7)),
    ("mi250x", "accelerator.peak.bf16", peak(110, 512, 1.7)),
    ("mi250x", "accelerator.peak.fp32", peak(110, 128, 1.7)),
    ("mi250x", "accelerator.peak.fp64", peak(110, 128, 1.7)),
    ("mi250x", "accelerator.multiprocessors", 110),
    ("mi250x", "accelerator.memory", 4 * 16 * GiB),
    ("mi250x", "accelerator.bandwidth", memory(4 * one_stack, 3.2)),
    ("mi300x", "accelerator.peak.fp16", peak(304, 1024, 2.1)),
    ("mi300x", "accelerator.peak.bf16", peak(304, 1024, 2.1)),
    ("mi300x", "accelerator.peak.fp32", peak(304, 128, 2.1)),
    ("mi300x", "accelerator.peak.fp64", peak(304, 128, 2.1)),
    ("mi300x", "accelerator.multiprocessors", 8 * 38),
    ("mi300x", "accelerator.memory", 8 * 24 * GB),
    ("mi300x", "accelerator.bandwidth", memory(8 * one_stack, 5.2)),
    # Within a node. NVLink: 12, 18, 18 links of 25, 25, 50 GB/s; PCI Express: 16 lanes of 16 and
    # 32 Gbit/s, 128 of 130 bits, of which 0.7 are assumed to be reached. 3.4 us and 9.6 us: NCCL,
    # src/graph/tuning.cc, hwLat of 2021, a ring with the simple protocol.
    ("selene-a100", "node.accelerators", 8),
    ("selene-a100", "node.p2p.latency", 3.4 * us),
    ("selene-a100", "node.p2p.bandwidth", 12 * 25 * GB),
    ("dgx-h100", "node.accelerators", 8),
    ("dgx-h100", "node.p2p.latency", 3.4 * us),
    ("dgx-h100", "node.p2p.bandwidth", 18 * 25 * GB),
    ("b200-hgx", "node.p2p.latency", 16 * us),
    ("b200-hgx", "node.p2p.bandwidth", 18 * 50 * GB),
    ("gb200-nvl72", "node.accelerators", 72),
    ("a100-pcie-80", "node.p2p.latency", 10 * us),
    ("a100-pcie-80", "node.p2p.bandwidth", 0.7 * adapter(16 * 16 * 128 / 130)),
    ("h100-pcie", "node.p2p.latency", 10 * us),
    ("h100-pcie", "node.p2p.bandwidth", 0.7 * adapter(16 * 32 * 128 / 130)),
    ("mi250x", "node.p2p.latency", 10 * us),
    ("mi250x", "node.p2p.bandwidth", 50 * GB),
    ("mi300x", "node.p2p.latency", 10 * us),
    ("mi300x", "node.p2p.bandwidth", 336 / 7 * GB),
    # Collectives within a node: an all-reduce has twice the steps of the other two, 40 us.
    ("dgx-h100", "node.all_reduce.latency", 2 * 40 * us),
    ("dgx-h100", "node.all_reduce.bandwidth", 370 * GB),
    ("dgx-h100", "node.all_gather.latency", 40 * us),
    ("dgx-h100", "node.all_gather.bandwidth", 370 * GB),
    ("dgx-h100", "node.reduce_scatter.latency", 40 * us),
    ("dgx-h100", "node.reduce_scatter.bandwidth", 370 * GB),
    ("aws-p5", "node.all_reduce.latency", 2 * 40 * us),
    ("aws-p5", "node.all_reduce.bandwidth", 458 * GB),
    ("aws-p5", "node.all_gather.latency", 40 * us),
    ("aws-p5", "node.all_gather.bandwidth", without_copies(263, 7 / 8)),
    ("aws-p5", "node.reduce_scatter.latency", 40 * us),
    ("aws-p5", "node.reduce_scatter.bandwidth", without_copies(263, 7 / 8)),
    # SimuMax' b200_bf16_ceperm.json: a share of 900 GiB/s, and a start and steps in us.
    ("b200-hgx", "node.all_reduce.latency", (22 + 14 * 5.5) * us),
    ("b200-hgx", "node.all_reduce.bandwidth", 0.742 * 900 * GiB),
    ("b200-hgx", "node.all_gather.latency", (23 + 7 * 9.2) * us),
    ("b200-hgx", "node.all_gather.bandwidth", 0.674 * 900 * GiB),
    ("b200-hgx", "node.reduce_scatter.latency", (26 + 7 * 8.0) * us),
    ("b200-hgx", "node.reduce_scatter.bandwidth", 0.673 * 900 * GiB),
    ("a100-pcie-80", "node.all_reduce.latency", 2 * 40 * us),
    ("a100-pcie-80", "node.all_reduce.bandwidth", 0.7 * 31.5 * GB),
    ("a100-pcie-80", "node.all_gather.latency", 40 * us),
    ("a100-pcie-80", "node.all_gather.bandwidth", 0.7 * 31.5 * GB),
    ("a100-pcie-80", "node.reduce_scatter.latency", 40 * us),
    ("a100-pcie-80", "node.reduce_scatter.bandwidth", 0.7 * 31.5 * GB),
    ("h100-pcie", "node.all_reduce.latency", 2 * 40 * us),
    ("h100-pcie", "node.all_reduce.bandwidth", 0.7 * 63 * GB),
    ("h100-pcie", "node.all_gather.latency", 40 * us),
    ("h100-pcie", "node.all_gather.bandwidth", 0.7 * 63 * GB),
    ("h100-pcie", "node.reduce_scatter.latency", 40 * us),
    ("h100-pcie", "node.reduce_scatter.bandwidth", 0.7 * 63 * GB),
    ("mi250x", "node.all_reduce.latency", 2 * 40 * us),
    ("mi250x", "node.all_reduce.bandwidth", 70 * GB),
    ("mi250x", "node.all_gather.latency", 40 * us),
    ("mi250x", "node.all_gather.bandwidth", 70 * GB),
    ("mi250x", "node.reduce_scatter.latency", 40 * us),
    ("mi250x", "node.reduce_scatter.bandwidth", 70 * GB),
    ("mi300x", "node.all_reduce.latency", 2 * 40 * us),
    ("mi300x", "node.all_reduce.bandwidth", 310 * GB),
    ("mi300x", "node.all_gather.latency", 40 * us),
    ("mi300x", "node.all_gather.bandwidth", 310 * GB),
    ("mi300x", "node.reduce_scatter.latency", 40 * us),
    ("mi300x", "node.reduce_scatter.bandwidth", 310 * GB),
    # Between nodes. 12.9 TB/s cross the bisection twice in 512 rings; Calculon's 0.67.
    ("selene-a100", "network.bandwidth", adapter(200)),
    ("selene-a100", "network.efficiency", 12.9 * tera / (2 * 512 * adapter(200))),
    ("selene-a100", "network.latency", 9.6 * us),
    ("a100-4hdr", "network.adapters", 800 / 200),
    ("a100-4hdr", "network.bus_bandwidth", 96 * GB),
    ("a100-pcie-80", "network.adapters", 2),
    ("jean-zay-a100", "network.bandwidth", adapter(100)),
    ("jean-zay-a100", "network.adapters", 4),
    ("mi250x", "network.bandwidth", adapter(200)),
    ("mi250x", "network.adapters", 4),
    ("aws-p4d", "network.bandwidth", adapter(400 / 4)),
    ("aws-p4d", "network.adapters", 4),
    ("aws-p4d", "network.efficiency", 0.6),
    ("aws-p4d", "network.latency", 45 * us),
    ("dgx-h100", "network.bandwidth", adapter(400)),
    ("dgx-h100", "network.efficiency", 12.9 * tera / (2 * 512 * adapter(200))),
    ("dgx-h100", "network.latency", 9.6 * us),
    ("h100-pcie", "network.adapters", 2),
    ("gb300-nvl72", "network.bandwidth", adapter(800)),
    # 30 of 50 GB/s per accelerator reached with one rank per node, and 1.34 halves of the adapter's
    # rate fitted by a prototype of others.
    ("aws-p5", "network.bandwidth", adapter(3200 / 8)),
    ("aws-p5", "network.adapters", 8),
    ("aws-p5", "network.efficiency", 1.34 / 2),
    ("aws-p5", "network.bus_bandwidth.2", 428 * GB),
    ("aws-p5", "network.bus_bandwidth.4", 207 * GB),
    ("aws-p5", "network.bus_bandwidth.8", 180 * GB),
    # On two nodes 15/16 of 1 GiB at 223 GB/s, less 15 steps of 41 us, is 258 GB/s.
    ("aws-p5", "network.gather_bandwidth.2", without_copies(258, 1)),
    ("aws-p5", "network.gather_bandwidth.4", without_copies(315, 1)),
    # 80 GiB less the 79.1 that CUDA reports; NCCL's buffers by protocol, its channels by version.
    ("selene-a100", "device.driver", (80 - 79.1) * GiB),
    ("selene-a100", "device.context", (0.48 + 0.65) / 2 * GiB),
    ("selene-a100", "device.node_channels", (16 + 32) / 2),
    ("selene-a100", "device.network_channels", 2 * 8),
    ("selene-a100", "device.message_channels", 2),
    ("selene-a100", "device.node_buffers", (10 + 2) * MiB),
    ("selene-a100", "device.network_buffers", 2 * 10 * MiB),
    ("selene-a100", "device.multicast", 0),
    ("dgx-h100", "device.driver", (80 - 79.1) * GiB),
    ("dgx-h100", "device.context", (0.48 + 0.65) / 2 * GiB),
    ("dgx-h100", "device.node_channels", (16 + 32) / 2),
    ("dgx-h100", "device.network_channels", 2 * 8),
    ("dgx-h100", "device.message_channels", 2),
    ("dgx-h100", "device.node_buffers", (10 + 2) * MiB),
    ("dgx-h100", "device.network_buffers", 2 * 10 * MiB),
    ("dgx-h100", "device.multicast", 16 * 2 * MiB),
    # experiments/gpu/results: nvidia-smi less cudaMemGetInfo's total; what was used when a process had its context.
    ("h200", "device.driver", 143771 * MiB - 150109880320),
    ("h200", "device.context", 554500096),
    ("aws-p5e", "device.driver", 143771 * MiB - 150109880320),
    ("aws-p5e", "device.context", 554500096),
)
