#include "libsim/cost/cost_model.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "libsim/cost/collective_time.hpp"
#include "libsim/cost/gemm_time.hpp"
#include "libsim/cost/measured_time.hpp"

namespace stagecraft {
namespace {

BytesPerSecond streaming_rate(System const& system) {
  return {system.accelerator.bandwidth.value.value * system.calibration.stream_efficiency.value};
}

}  // namespace

CostModel::CostModel(System const& system, TrainingPlan const& plan)
    : system_{system}, plan_{plan} {
  if (!system.accelerator.peak.value.contains(plan.config.model.precision)) {
    throw std::invalid_argument("system '" + system.name +
                                "' gives no peak for the precision of this model");
  }
}

SimTime CostModel::price(Op const& op) const {
  switch (traits_of(op.kind).op_class) {
    case OpClass::synchronisation:
      return SimTime{0};
    case OpClass::collective:
      return to_sim_time(collective_seconds(op.kind, op.group.value(), op.payload).value);
    case OpClass::compute:
    case OpClass::step:
      break;
  }
  Precision const precision = plan_.config.model.precision;
  if (system_.measured) {
    auto const time = measured_time(*system_.measured, op, precision);
    if (time) return to_sim_time(time->value);
  }
  Calibration const& constants = system_.calibration;
  bool const is_flash_forward = op.kind == OpKind::flash_attention;
  if (is_flash_forward || op.kind == OpKind::flash_attention_backward) {
    double const efficiency = is_flash_forward ? constants.flash_forward_efficiency.value
                                               : constants.flash_backward_efficiency.value;
    double const peak = system_.accelerator.peak.value.at(precision).value;
    double const compute = static_cast<double>(op.flops) / (peak * efficiency);
    return to_sim_time(constants.kernel_launch.value.value +
                       std::max(compute, (op.traffic / streaming_rate(system_)).value));
  }
  if (op.gemm.batch > 0) {
    std::int64_t const element =
        element_size(op.gemm.accumulate ? gradient_type(precision) : activation_type(precision));
    std::int64_t const output = op.gemm.batch * op.gemm.m * op.gemm.n * element;
    Bytes const epilogue{op.gemm.accumulate ? 2 * output : output};
    return to_sim_time(gemm_time(op.gemm, op.traffic, epilogue, precision, system_).value);
  }
  double const efficiency =
      op.draws_random ? constants.dropout_efficiency.value : constants.stream_efficiency.value;
  BytesPerSecond const rate{system_.accelerator.bandwidth.value.value * efficiency};
  return to_sim_time(constants.kernel_launch.value.value + (op.traffic / rate).value);
}

Seconds CostModel::collective_seconds(OpKind kind, GroupId group, Bytes payload) const {
  double sum = 0;
  for (LevelPlacement const& level : plan_.groups.placement(group)) {
    Seconds const time =
        is_in_one_node(level)
            ? node_collective_time(kind, payload, level.members, system_.node)
            : network_collective_time(kind, payload, level.members, system_.network);
    sum += time.value;
  }
  return Seconds{sum};
}

MessagePrice CostModel::price_message(TrainingPlan const& plan,
                                      int from_stage,
                                      int to_stage) const {
  int const stride = plan.groups.ranks_per_stage();
  int const per_node = system_.node.accelerators.value;
  bool const is_near = from_stage * stride / per_node == to_stage * stride / per_node;
  Bytes const whole = plan.message_bytes();
  Bytes const sent = plan.sent_bytes();
  CollectiveCost const& link = system_.node.p2p.value;
  double const rate =
      is_near ? link.bandwidth.value
              : system_.network.bandwidth.value.value * system_.network.efficiency.value;
  double latency = (is_near ? link.latency.value : system_.network.latency.value.value) +
                   system_.calibration.p2p_synchronisation.value.value;
  if (plan.scatters_messages()) {
    latency += collective_seconds(OpKind::all_gather, plan.roles.tensor, whole).value;
  }
  return {.latency = to_sim_time(latency),
          .occupancy = to_sim_time((sent / BytesPerSecond{rate}).value)};
}

int CostModel::slowdown_millionths() const {
  return static_cast<int>(std::lround(system_.calibration.overlap_slowdown.value * 1e6));
}

int CostModel::data_parallel_slowdown_millionths() const {
  std::vector<LevelPlacement> const& levels = plan_.groups.placement(plan_.roles.gradients);
  bool const stays_in_node = std::all_of(levels.begin(), levels.end(),
                                         [&](auto const& level) { return is_in_one_node(level); });
  if (stays_in_node) return slowdown_millionths();
  return static_cast<int>(std::lround(system_.calibration.network_slowdown.value * 1e6));
}

SimTime CostModel::iteration_overhead() const {
  return to_sim_time(system_.calibration.iteration_overhead.value.value);
}

bool CostModel::is_in_one_node(LevelPlacement const& level) const {
  return level.span < system_.node.accelerators.value;
}

}  // namespace stagecraft
