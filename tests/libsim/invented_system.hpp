#pragma once

#include "libsim/hardware/system.hpp"

namespace stagecraft {

/// A machine whose costs can be counted by hand: 1 TB/s of memory, 4 processors of 25 TFLOP/s, no
/// launch cost, no latency, full efficiency everywhere. Tests change what they are about.
inline System invented_system() {
  System system;
  system.name = "invented";
  FlopsPerSecond const peak{100e12};
  system.accelerator.peak.value = {{Precision::fp16, peak},
                                   {Precision::bf16, peak},
                                   {Precision::fp32, peak},
                                   {Precision::fp64, peak}};
  system.accelerator.multiprocessors.value = 4;
  system.accelerator.memory.value = Bytes{std::int64_t{80} << 30};
  system.accelerator.bandwidth.value = {1e12};
  system.node.accelerators.value = 8;
  CollectiveCost const link{.latency = {0}, .bandwidth = {100e9}, .table = {}, .ranks = 0};
  system.node.all_reduce.value = link;
  system.node.all_gather.value = link;
  system.node.reduce_scatter.value = link;
  system.node.p2p.value = link;
  system.network.bandwidth.value = {10e9};
  system.network.efficiency.value = 1;
  Calibration& calibration = system.calibration;
  calibration.gemm_efficiency.value = 1;
  calibration.gemm_small_tile.value = 1;
  calibration.flash_forward_efficiency.value = 1;
  calibration.flash_backward_efficiency.value = 1;
  calibration.stream_efficiency.value = 1;
  calibration.dropout_efficiency.value = 1;
  return system;
}

/// The same machine with every cost a real one has: launches, latencies, losses, a slowdown under
/// collectives.
inline System lossy_system() {
  System system = invented_system();
  system.node.all_reduce.value.latency = {20e-6};
  system.node.all_gather.value.latency = {10e-6};
  system.node.reduce_scatter.value.latency = {10e-6};
  system.node.p2p.value.latency = {3e-6};
  system.network.latency.value = {7e-6};
  system.network.efficiency.value = 0.9;
  Calibration& calibration = system.calibration;
  calibration.gemm_efficiency.value = 0.8;
  calibration.gemm_small_tile.value = 0.9;
  calibration.gemm_tile_prologue.value = {1e-6};
  calibration.kernel_launch.value = {3e-6};
  calibration.stream_efficiency.value = 0.85;
  calibration.dropout_efficiency.value = 0.7;
  calibration.overlap_slowdown.value = 0.5;
  calibration.p2p_synchronisation.value = {40e-6};
  calibration.iteration_overhead.value = {5e-3};
  calibration.workspace.value = Bytes{4 << 20};
  return system;
}

}  // namespace stagecraft
