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

Collective collective_of(OpKind kind) {
  switch (kind) {
    case OpKind::all_gather:
      return Collective::all_gather;
    case OpKind::reduce_scatter:
      return Collective::reduce_scatter;
    case OpKind::all_reduce:
      return Collective::all_reduce;
    default:
      throw std::logic_error{std::string{name_of(kind)} + " has no cost as a collective"};
  }
}

BytesPerSecond streaming_rate(System const& system) {
  return {system.accelerator.bandwidth.value.value * system.calibration.stream_efficiency.value};
}

}  // namespace

CostModel::CostModel(System const& system, TrainingConfig const& config)
    : system_{system}, config_{config} {
  if (!system.accelerator.peak.value.contains(config.model.precision)) {
    throw std::invalid_argument("system '" + system.name +
                                "' gives no peak for the precision of this model");
  }
}

SimTime CostModel::price(Op const& op) const {
  switch (traits_of(op.kind).op_class) {
    case OpClass::synchronisation:
      return SimTime{0};
    case OpClass::collective:
      return to_sim_time(collective_seconds(op).value);
    case OpClass::compute:
    case OpClass::step:
      break;
  }
  if (system_.measured) {
    auto const time = measured_time(*system_.measured, op, config_.model.precision);
    if (time) return to_sim_time(time->value);
  }
  Calibration const& constants = system_.calibration;
  bool const is_flash_forward = op.kind == OpKind::flash_attention;
  if (is_flash_forward || op.kind == OpKind::flash_attention_backward) {
    double const efficiency = is_flash_forward ? constants.flash_forward_efficiency.value
                                               : constants.flash_backward_efficiency.value;
    double const peak = system_.accelerator.peak.value.at(config_.model.precision).value;
    double const compute = static_cast<double>(op.flops) / (peak * efficiency);
    return to_sim_time(constants.kernel_launch.value.value +
                       std::max(compute, (op.traffic / streaming_rate(system_)).value));
  }
  if (op.gemm.batch > 0) {
    std::int64_t const element =
        element_size(op.gemm.accumulate ? gradient_type(config_.model.precision)
                                        : activation_type(config_.model.precision));
    std::int64_t const output = op.gemm.batch * op.gemm.m * op.gemm.n * element;
    Bytes const epilogue{op.gemm.accumulate ? 2 * output : output};
    return to_sim_time(
        gemm_time(op.gemm, op.traffic, epilogue, config_.model.precision, system_).value);
  }
  double const efficiency =
      op.draws_random ? constants.dropout_efficiency.value : constants.stream_efficiency.value;
  BytesPerSecond const rate{system_.accelerator.bandwidth.value.value * efficiency};
  return to_sim_time(constants.kernel_launch.value.value + (op.traffic / rate).value);
}

Seconds CostModel::collective_seconds(Op const& op) const {
  ParallelLayout const& parallel = config_.parallel;
  Collective const collective = collective_of(op.kind);
  auto const time = [&](int stride, int ranks) {
    return in_one_node(stride, ranks)
               ? node_collective_time(collective, op.payload, ranks, system_.node)
               : network_collective_time(collective, op.payload, ranks, system_.network);
  };
  int const replica_stride = parallel.tensor * parallel.data;
  switch (op.group) {
    case CollectiveGroup::tensor:
      return time(1, parallel.tensor);
    case CollectiveGroup::kv_replicas:
      return time(1, static_cast<int>(parallel.tensor / config_.model.kv_heads));
    case CollectiveGroup::data:
      return time(parallel.tensor, parallel.data);
    case CollectiveGroup::embedding:
      return time(replica_stride * (parallel.pipeline - 1), 2);
    // A scalar: only latencies count. Inside the node by its table, between the others by the
    // network.
    case CollectiveGroup::model:
      return Seconds{time(1, parallel.tensor).value +
                     time(replica_stride, parallel.pipeline).value};
    case CollectiveGroup::job:
      return Seconds{time(1, parallel.tensor).value +
                     time(parallel.tensor, parallel.data * parallel.pipeline).value};
  }
  return Seconds{0};
}

MessagePrice CostModel::price_message(TrainingPlan const& plan,
                                      int from_stage,
                                      int to_stage) const {
  int const stride = config_.parallel.tensor * config_.parallel.data;
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
    Op gather;
    gather.kind = OpKind::all_gather;
    gather.payload = whole;
    latency += collective_seconds(gather).value;
  }
  return {.latency = to_sim_time(latency),
          .occupancy = to_sim_time((sent / BytesPerSecond{rate}).value)};
}

int CostModel::slowdown_millionths() const {
  return static_cast<int>(std::lround(system_.calibration.overlap_slowdown.value * 1e6));
}

int CostModel::data_parallel_slowdown_millionths() const {
  ParallelLayout const& parallel = config_.parallel;
  if (in_one_node(parallel.tensor, parallel.data)) return slowdown_millionths();
  return static_cast<int>(std::lround(system_.calibration.network_slowdown.value * 1e6));
}

SimTime CostModel::iteration_overhead() const {
  return to_sim_time(system_.calibration.iteration_overhead.value.value);
}

bool CostModel::in_one_node(int stride, int count) const {
  return stride * (count - 1) < system_.node.accelerators.value;
}

}  // namespace stagecraft
