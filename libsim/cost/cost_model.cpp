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
    : system_{system}, plan_{plan} {}

SimTime CostModel::price(Op const& op) const {
  OpKindTraits const& traits = traits_of(op.kind);
  switch (traits.op_class) {
    case OpClass::synchronisation:
      return SimTime{0};
    case OpClass::collective:
      return to_sim_time(collective_seconds(op.kind, op.group.value(), op.payload).value);
    case OpClass::compute:
    case OpClass::step:
      break;
  }
  if (op.attributes.index() != traits.attributes) {
    throw std::logic_error{to_string(op.name) + ": a " + std::string{traits.name} +
                           " does not have the attributes that its cost depends on"};
  }
  if (system_.measured) {
    auto const time = measured_time(*system_.measured, op);
    if (time) return to_sim_time(time->value);
  }
  if (auto const* const gemm = std::get_if<GemmAttributes>(&op.attributes)) {
    return to_sim_time(product_seconds(op, *gemm).value);
  }
  if (std::holds_alternative<FlashAttributes>(op.attributes)) {
    return to_sim_time(flash_seconds(op).value);
  }
  return to_sim_time(sweep_seconds(op).value);
}

Seconds CostModel::product_seconds(Op const& op, GemmAttributes const& gemm) const {
  GemmShape const& shape = gemm.shape;
  std::int64_t const output = shape.batch * shape.m * shape.n * element_size(gemm.output);
  Bytes const epilogue{shape.accumulate ? 2 * output : output};
  return gemm_time(shape, op.traffic, epilogue, peak_of(op.type), system_);
}

Seconds CostModel::flash_seconds(Op const& op) const {
  Calibration const& constants = system_.calibration;
  auto const efficiency = [&] {
    switch (op.kind) {
      case OpKind::flash_attention:
        return constants.flash_forward_efficiency.value;
      case OpKind::flash_attention_backward:
        return constants.flash_backward_efficiency.value;
      default:
        throw std::logic_error{std::string{name_of(op.kind)} + " has no efficiency"};
    }
  }();
  double const compute = static_cast<double>(op.flops) / (peak_of(op.type).value * efficiency);
  return Seconds{constants.kernel_launch.value.value +
                 std::max(compute, (op.traffic / streaming_rate(system_)).value)};
}

Seconds CostModel::sweep_seconds(Op const& op) const {
  Calibration const& constants = system_.calibration;
  double const efficiency =
      op.draws_random ? constants.dropout_efficiency.value : constants.stream_efficiency.value;
  BytesPerSecond const rate{system_.accelerator.bandwidth.value.value * efficiency};
  return Seconds{constants.kernel_launch.value.value + (op.traffic / rate).value};
}

FlopsPerSecond CostModel::peak_of(ElementType type) const {
  auto const& peaks = system_.accelerator.peak.value;
  auto const peak = peaks.find(precision_of(type));
  if (peak == peaks.end()) {
    throw std::invalid_argument("system '" + system_.name +
                                "' gives no peak for the precision of this model");
  }
  return peak->second;
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
