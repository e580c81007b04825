#pragma once

#include "libsim/config/section_reader.hpp"
#include "libsim/hardware/system.hpp"

namespace stagecraft {

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
