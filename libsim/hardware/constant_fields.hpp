#pragma once

#include "libsim/config/section_reader.hpp"
#include "libsim/hardware/software.hpp"
#include "libsim/hardware/system.hpp"

namespace stagecraft {

/// The keys of a software file, declared once for reading, writing and listing, for the same
/// visitors as visit_system().
template <typename Visitor, typename AnySoftware>
void visit_software(Visitor& visitor, AnySoftware& software) {
  constexpr NumberRange factor{.lower = 0.001, .upper = 1000, .includes_upper = true};
  constexpr IntegerRange zero_or_more{0, 64};
  visitor.text("name", software.name, Need::required);
  visitor.optional_constant("factor", software.factor, factor);
  visitor.section("host", Need::optional, [&](auto& section) {
    auto& host = software.host;
    section.optional_constant("kernel", host.kernel);
    section.optional_constant("gemm", host.gemm);
    section.optional_constant("collective", host.collective);
    section.optional_constant("backward", host.backward, factor);
    section.optional_constant("collective_per_rank", host.collective_per_rank);
    section.optional_constant("collective_per_remote_rank", host.collective_per_remote_rank);
    section.optional_constant("unfused_softmax", host.unfused_softmax);
    section.optional_constant("message", host.message);
    section.optional_constant("iteration", host.iteration);
  });
  visitor.section("kernels", Need::optional, [&](auto& section) {
    auto& kernels = software.kernels;
    section.optional_constant("traffic", kernels.traffic, factor);
    section.optional_constant("fused_softmax_multiple", kernels.fused_softmax_multiple,
                              zero_or_more);
    section.optional_constant("unfused_softmax_traffic", kernels.unfused_softmax_traffic, factor);
    section.optional_constant("accumulation_bytes", kernels.accumulation_bytes, zero_or_more);
  });
  visitor.section("replicas", Need::optional, [&](auto& section) {
    auto& replicas = software.replicas;
    section.optional_constant("overlap", replicas.overlap);
    section.optional_constant("gradient_bytes", replicas.gradient_bytes, zero_or_more);
    section.optional_constant("reduces_whole", replicas.reduces_whole);
    section.optional_constant("bucket", replicas.bucket);
    section.optional_constant("call", replicas.call);
    section.optional_constant("call_per_rank", replicas.call_per_rank);
    section.optional_constant("gather_traffic", replicas.gather_traffic, zero_or_more);
    section.optional_constant("gather_piece", replicas.gather_piece);
  });
  visitor.section("tensor", Need::optional, [&](auto& section) {
    section.optional_constant("overlaps_backward", software.tensor.overlaps_backward);
    section.optional_constant("own_shard_first", software.tensor.own_shard_first);
  });
  visitor.section("memory", Need::optional, [&](auto& section) {
    auto& memory = software.memory;
    section.optional_constant("kept", memory.kept, factor);
    section.optional_constant("held", memory.held, factor);
    section.optional_constant("held_of_prediction", memory.held_of_prediction, factor);
    section.optional_constant("temporary", memory.temporary, factor);
    section.optional_constant("separate_gradients", memory.separate_gradients);
    section.optional_constant("passing_gradients", memory.passing_gradients);
    section.optional_constant("widened_gradients", memory.widened_gradients);
    section.optional_constant("replica_gradient_bytes", memory.replica_gradient_bytes,
                              zero_or_more);
    section.optional_constant("first_replica_bucket", memory.first_replica_bucket);
    section.optional_constant("replica_bucket", memory.replica_bucket);
    section.optional_constant("kept_gathers", memory.kept_gathers);
    section.optional_constant("global_buffer", memory.global_buffer, factor);
    section.optional_constant("joined_master_weights", memory.joined_master_weights);
    section.optional_constant("sharded_parameters", memory.sharded_parameters);
    section.optional_constant("gather_copies", memory.gather_copies);
    section.optional_constant("workspace", memory.workspace);
    section.optional_constant("host_lead", memory.host_lead, IntegerRange{0, 1'000'000});
    section.optional_constant("waits_after_sends", memory.waits_after_sends);
    section.optional_constant("waits_after_passes", memory.waits_after_passes);
    section.optional_constant("late_connections", memory.late_connections);
    section.optional_constant("kernels_per_op", memory.kernels_per_op, factor);
    section.optional_constant("host_gain", memory.host_gain,
                              NumberRange{.lower = 0, .upper = 1000, .includes_upper = true});
  });
  visitor.section("communicators", Need::optional, [&](auto& section) {
    auto& communicators = software.communicators;
    section.optional_constant("of_all", communicators.of_all, zero_or_more);
    section.optional_constant("of_node", communicators.of_node);
    section.optional_constant("of_stages", communicators.of_stages);
    section.optional_constant("trees", communicators.trees);
    section.optional_constant("multicast", communicators.multicast);
    section.optional_constant("multicast_channels", communicators.multicast_channels,
                              IntegerRange{0, 1024});
  });
}

/// Bounds of an efficiency, a fraction by which a time is divided.
inline constexpr NumberRange efficiency_range{.lower = 0.001, .upper = 1, .includes_upper = true};

/// The keys of a system file, declared once for reading, writing and listing.
///
/// A visitor has text() and boolean() as SectionReader does, constant() for a Sourced value, with a
/// NumberRange if the value is a plain number, optional_constant() for one that may be left out,
/// and section() for the keys below a section.
template <typename Visitor, typename AnySystem>
void visit_system(Visitor& visitor, AnySystem& system) {
  visitor.text("name", system.name, Need::required);
  visitor.boolean("validated", system.validated);
  visitor.section("accelerator", [&](auto& section) {
    auto& accelerator = system.accelerator;
    section.text("name", accelerator.name, Need::required);
    section.constant("peak", accelerator.peak);
    section.constant("multiprocessors", accelerator.multiprocessors);
    section.constant("memory", accelerator.memory);
    section.constant("bandwidth", accelerator.bandwidth);
  });
  visitor.section("node", [&](auto& section) {
    auto& node = system.node;
    section.constant("accelerators", node.accelerators);
    section.optional_constant("all_reduce", node.all_reduce);
    section.optional_constant("all_gather", node.all_gather);
    section.optional_constant("reduce_scatter", node.reduce_scatter);
    section.constant("p2p", node.p2p);
    section.optional_constant("bus_bandwidth", node.bus_bandwidth);
    section.optional_constant("collectives", node.collectives);
  });
  visitor.section("network", [&](auto& section) {
    auto& network = system.network;
    section.constant("bandwidth", network.bandwidth);
    section.optional_constant("adapters", network.adapters);
    section.constant("efficiency", network.efficiency, efficiency_range);
    section.constant("latency", network.latency);
    section.optional_constant("topology", network.topology);
    section.optional_constant("bus_bandwidth", network.bus_bandwidth);
    section.optional_constant("gather_bandwidth", network.gather_bandwidth);
    section.optional_constant("collectives", network.collectives);
  });
  visitor.section("calibration", [&](auto& section) {
    auto& calibration = system.calibration;
    section.constant("gemm_efficiency", calibration.gemm_efficiency, efficiency_range);
    section.constant("gemm_small_tile", calibration.gemm_small_tile, efficiency_range);
    section.constant("gemm_tile_prologue", calibration.gemm_tile_prologue);
    section.constant("flash_forward_efficiency", calibration.flash_forward_efficiency,
                     efficiency_range);
    section.constant("flash_backward_efficiency", calibration.flash_backward_efficiency,
                     efficiency_range);
    section.constant("kernel_launch", calibration.kernel_launch);
    section.constant("stream_efficiency", calibration.stream_efficiency, efficiency_range);
    section.constant("dropout_efficiency", calibration.dropout_efficiency, efficiency_range);
    section.constant("overlap_slowdown", calibration.overlap_slowdown, NumberRange{0, 1, false});
    section.constant("network_slowdown", calibration.network_slowdown, NumberRange{0, 1, false});
    section.constant("p2p_synchronisation", calibration.p2p_synchronisation);
    section.constant("iteration_overhead", calibration.iteration_overhead);
    section.constant("workspace", calibration.workspace);
  });
  visitor.optional_section("measured", system.measured, [&](auto& section, auto& measured) {
    section.constant("gemm", measured.gemm);
    section.constant("kernels", measured.kernels);
  });
  visitor.optional_section("device", system.device, [&](auto& section, auto& device) {
    constexpr IntegerRange channels{0, 1024};
    section.constant("driver", device.driver);
    section.constant("context", device.context);
    section.constant("node_channels", device.node_channels, channels);
    section.constant("network_channels", device.network_channels, channels);
    section.constant("message_channels", device.message_channels, channels);
    section.constant("node_buffers", device.node_buffers);
    section.constant("network_buffers", device.network_buffers);
    section.constant("multicast", device.multicast);
  });
}

}  // namespace stagecraft
