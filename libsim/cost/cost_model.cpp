#include "libsim/cost/cost_model.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

#include "libsim/cost/collective_time.hpp"
#include "libsim/cost/gemm_time.hpp"
#include "libsim/cost/measured_time.hpp"
#include "libsim/cost/oversubscription.hpp"
#include "libsim/hardware/by_capability.hpp"
#include "libsim/hardware/recipe_support.hpp"
#include "libsim/model/model_names.hpp"
#include "libsim/plan/state_buffers.hpp"
#include "libsim/program/low_library.hpp"

namespace stagecraft {
namespace {

int nodes_per_stage(TrainingPlan const& plan, System const& system) {
  return std::max(1, plan.groups.ranks_per_stage() / system.node.accelerators.value);
}

/// The number of parameter tensors of the stage that has the most.
double most_parameters(TrainingPlan const& plan) {
  std::size_t most = 0;
  for (StagePlan const& stage : plan.stages) {
    std::size_t tensors = 0;
    for (StageChunk const& chunk : stage.chunks) {
      auto const& program = plan.programs.chunks[static_cast<std::size_t>(chunk.program)];
      for (std::int32_t const block : program.blocks) {
        tensors += plan.programs.blocks[static_cast<std::size_t>(block)].parameters.size();
      }
    }
    most = std::max(most, tensors);
  }
  return static_cast<double>(most);
}

bool is_cast(OpKind kind) {
  return kind == OpKind::quantise || kind == OpKind::transpose_quantised ||
         kind == OpKind::dequantise || kind == OpKind::quantise_weights;
}

BytesPerSecond streaming_rate(System const& system) {
  return {system.accelerator.bandwidth.value.value * system.calibration.stream_efficiency.value};
}

}  // namespace

CostModel::CostModel(System const& system, TrainingPlan const& plan)
    : system_{system}, plan_{plan} {}

SimTime CostModel::rounded(double seconds) const {
  return to_sim_time(system_.software.factor.value * seconds);
}

SimTime CostModel::duration(Op const& op) const {
  OpKindTraits const& traits = traits_of(op.kind);
  switch (traits.op_class) {
    case OpClass::synchronisation:
      return SimTime{0};
    case OpClass::collective:
      if (op.phase == Phase::data_parallel && op.stream != Stream::gather &&
          plan_.groups[op.group.value()].holders) {
        return rounded(replica_seconds(op).value);
      }
      if (auto const* const exchange = std::get_if<ExchangeAttributes>(&op.attributes);
          exchange != nullptr && exchange->sends_once) {
        return rounded(unique_seconds(op, *exchange).value);
      }
      if (op.kind == OpKind::prefix_reduce) return rounded(prefix_seconds(op).value);
      return rounded(collective_seconds(op.kind, op.group.value(), op.payload).value);
    case OpClass::compute:
      break;
    case OpClass::step:
      if (kind_of(op.stream) == StreamKind::offload) return rounded(host_seconds(op).value);
      break;
  }
  if (op.attributes.index() != traits.attributes) {
    throw std::logic_error{to_string(op.name) + ": a " + std::string{traits.name} +
                           " does not have the attributes that its cost depends on"};
  }
  // Products in TF32 are not among those that were measured.
  bool const is_product = std::holds_alternative<GemmAttributes>(op.attributes) ||
                          std::holds_alternative<FlashAttributes>(op.attributes);
  if (system_.measured && !(plan_.config.tf32 && is_product)) {
    auto const time = measured_time(*system_.measured, op);
    if (time) return rounded(time->value);
  }
  return rounded(time_factor(op.kind) * kernel_seconds(op).value);
}

Seconds CostModel::host_seconds(Op const& op) const {
  Node const& node = system_.node;
  int const ranks = std::min(plan_.groups.ranks(), node.accelerators.value);
  if (op.stream == Stream::host) {
    // Adam reads a gradient, a master copy and two moments, and writes all but the gradient.
    constexpr double bytes_of_parameter = 7 * 4;
    double const parameters = static_cast<double>(op.traffic.count()) / bytes_of_parameter;
    return Seconds{parameters * ranks / node.host_adam.value};
  }
  HostLink const& link = system_.accelerator.host_link.value;
  return op.payload / BytesPerSecond{link.bandwidth.value / std::min(ranks, link.accelerators)};
}

Seconds CostModel::kernel_seconds(Op const& op) const {
  if (auto const* const gemm = std::get_if<GemmAttributes>(&op.attributes)) {
    double seconds = product_seconds(op, *gemm).value;
    if (fills_output(op)) {
      Bytes const output{gemm->output_elements() * element_size(gemm->output)};
      seconds +=
          system_.calibration.kernel_launch.value.value + (output / streaming_rate(system_)).value;
    }
    return Seconds{seconds};
  }
  if (std::holds_alternative<FlashAttributes>(op.attributes)) return flash_seconds(op);
  return sweep_seconds(op);
}

double CostModel::time_factor(OpKind kind) const {
  auto const& factors = system_.software.kernels.time.value;
  auto const of_kind = factors.find(kind);
  if (of_kind == factors.end()) return 1;
  return by_capability(of_kind->second, system_.accelerator.compute_capability.value, 1.0);
}

Seconds CostModel::product_seconds(Op const& op, GemmAttributes const& gemm) const {
  GemmShape const& shape = gemm.shape;
  std::int64_t const elements = gemm.output_elements();
  std::int64_t const output = elements * element_size(gemm.output);
  FlopsPerSecond const peak = peak_of(gemm.operands());
  int const apart = system_.software.kernels.accumulation_bytes.value;
  if (shape.accumulate && apart > 0) {
    // The product is written, in its operands' type or that of activations, and added by another
    // kernel.
    ElementType const type = is_quantised(gemm.operands()) ? op.type : gemm.operands();
    std::int64_t const written = elements * element_size(type);
    Bytes const traffic{op.traffic.count() - 2 * output + written};
    Bytes const added{std::max<std::int64_t>(elements * apart - written, 0)};
    Seconds const product = gemm_time(gemm, traffic, Bytes{written}, peak, system_);
    return Seconds{product.value + (added / streaming_rate(system_)).value};
  }
  Bytes const epilogue{shape.accumulate ? 2 * output : output};
  return gemm_time(gemm, op.traffic, epilogue, peak, system_);
}

CostModel::SplitProduct CostModel::split_product(Op const& gather, Op const& product) const {
  int const ranks = plan_.groups.members(gather.group.value());
  auto const part = [&](std::int64_t shards) {
    Op op = product;
    GemmAttributes gemm = std::get<GemmAttributes>(product.attributes);
    gemm.shape.m = gemm.shape.m * shards / ranks;
    op.traffic = Bytes{product.traffic.count() * shards / ranks};
    op.attributes = gemm;
    return duration(op);
  };
  return {.own = part(1), .rest = part(ranks - 1)};
}

Seconds CostModel::flash_seconds(Op const& op) const {
  Calibration const& constants = system_.calibration;
  bool const is_latent = has_latents(plan_.config.model);
  auto const of_attention = [&](double plain, double latent) {
    return is_latent && latent > 0 ? latent : plain;
  };
  auto const efficiency = [&] {
    switch (op.kind) {
      case OpKind::flash_attention:
        return of_attention(constants.flash_forward_efficiency.value,
                            constants.latent_flash_forward_efficiency.value);
      case OpKind::flash_attention_backward:
        return of_attention(constants.flash_backward_efficiency.value,
                            constants.latent_flash_backward_efficiency.value);
      default:
        throw std::logic_error{std::string{name_of(op.kind)} + " has no efficiency"};
    }
  }();
  bool const is_low = std::get<FlashAttributes>(op.attributes).is_low;
  FlopsPerSecond const peak = peak_of(is_low ? ElementType::f8_e4m3 : op.type);
  double const compute = static_cast<double>(op.flops) / (peak.value * efficiency);
  return Seconds{constants.kernel_launch.value.value +
                 std::max(compute, (op.traffic / streaming_rate(system_)).value)};
}

Seconds CostModel::sweep_seconds(Op const& op) const {
  Calibration const& constants = system_.calibration;
  bool const casts = is_cast(op.kind) && constants.quantise_efficiency.value > 0;
  double const efficiency = casts             ? constants.quantise_efficiency.value
                            : op.draws_random ? constants.dropout_efficiency.value
                                              : constants.stream_efficiency.value;
  BytesPerSecond const rate{system_.accelerator.bandwidth.value.value * efficiency};
  return Seconds{constants.kernel_launch.value.value +
                 traffic_factor(op) * (op.traffic / rate).value};
}

bool CostModel::has_fused_softmax(Op const& op) const {
  auto const* const softmax = std::get_if<SoftmaxAttributes>(&op.attributes);
  int const multiple = system_.software.kernels.fused_softmax_multiple.value;
  return softmax == nullptr || multiple == 0 || softmax->matrices % multiple == 0;
}

double CostModel::traffic_factor(Op const& op) const {
  KernelUse const& kernels = system_.software.kernels;
  if (!has_fused_softmax(op)) return kernels.unfused_softmax_traffic.value;
  auto const factor = kernels.traffic.value.find(op.kind);
  return factor == kernels.traffic.value.end() ? 1 : factor->second;
}

SimTime CostModel::host_time(Op const& op) const {
  HostCosts const& host = system_.software.host;
  double seconds = 0;
  switch (traits_of(op.kind).op_class) {
    case OpClass::synchronisation:
    case OpClass::step:
      return SimTime{0};
    case OpClass::collective: {
      int const ranks = plan_.groups.members(op.group.value());
      auto const& per_rank =
          crosses_nodes(*op.group) ? host.collective_per_remote_rank : host.collective_per_rank;
      // A rank of a shift talks to two others, whatever their number.
      int const partners = op.kind == OpKind::ring_shift ? 2 : ranks;
      seconds = host.collective.value.value + per_rank.value.value * partners;
      break;
    }
    case OpClass::compute:
      seconds = launch_seconds(op) + call_seconds(op);
      if (op.phase == Phase::input_gradient || op.phase == Phase::weight_gradient) {
        seconds *= host.backward.value;
      }
      if (!has_fused_softmax(op)) seconds += host.unfused_softmax.value.value;
      break;
  }
  return rounded(seconds / system_.node.host_speed.value);
}

bool CostModel::fills_output(Op const& op) const {
  if (!system_.software.kernels.fills_outputs.value || !plan_.config.deterministic) return false;
  return std::holds_alternative<GemmAttributes>(op.attributes) ||
         std::holds_alternative<FlashAttributes>(op.attributes);
}

SimTime CostModel::host_time_of_pass() const {
  return rounded(system_.software.host.pass.value.value / system_.node.host_speed.value);
}

double CostModel::launch_seconds(Op const& op) const {
  HostCosts const& host = system_.software.host;
  bool const is_product = op.kind == OpKind::gemm || op.kind == OpKind::grouped_gemm;
  auto const* const gemm = std::get_if<GemmAttributes>(&op.attributes);
  auto const several = host.launches.value.find(op.kind);
  double launches = several == host.launches.value.end() ? 1 : several->second;
  if (op.kind == OpKind::grouped_gemm && gemm != nullptr) {
    launches *= static_cast<double>(gemm->shape.batch);
  }
  auto const* const biases = std::get_if<GroupsAttributes>(&op.attributes);
  if (biases != nullptr && several != host.launches.value.end()) {
    launches *= static_cast<double>(biases->groups);
  }
  // A stack whose launches nobody counted has one time for an op, whatever it launches.
  bool const adds_apart = !host.launches.value.empty() && gemm != nullptr &&
                          gemm->shape.accumulate &&
                          system_.software.kernels.accumulation_bytes.value > 0;
  int const more = (adds_apart ? 1 : 0) + (fills_output(op) ? 1 : 0);
  return launches * (is_product ? host.gemm : host.kernel).value.value +
         more * host.kernel.value.value;
}

double CostModel::call_seconds(Op const& op) const {
  HostCosts const& host = system_.software.host;
  auto const several = host.calls.value.find(op.kind);
  if (several == host.calls.value.end()) return 0;
  double calls = several->second;
  if (auto const* const gemm = std::get_if<GemmAttributes>(&op.attributes)) {
    auto const& experts = plan_.config.model.experts;
    bool const is_batch = op.kind == OpKind::gemm && gemm->shape.batch > 1;
    bool const is_one_by_one = op.kind == OpKind::grouped_gemm && experts && !experts->grouped;
    if (is_batch) calls = 0;
    if (is_one_by_one) calls *= static_cast<double>(gemm->shape.batch);
  }
  return calls * host.call.value.value;
}

FlopsPerSecond CostModel::peak_of(ElementType type) const {
  MatrixPeaks const& peaks = system_.accelerator.peak.value;
  auto const missing = [&](std::string_view name) {
    return CostError{"system '" + system_.name + "': accelerator.peak: found no rate for " +
                     std::string{name} + "; accepted: a system that gives it"};
  };
  if (is_quantised(type)) {
    if (std::optional<FlopsPerSecond> const& low = low_peak(peaks, type)) return *low;
    throw missing(element_bits(type) == 4 ? "fp4" : "fp8");
  }
  bool const tf32 = plan_.config.tf32;
  Precision const precision = precision_of(type);
  if (FlopsPerSecond const* const peak = matrix_peak(peaks, precision, tf32)) return *peak;
  throw missing(tf32 && precision == Precision::fp32 ? "tf32" : name_of(precision));
}

Seconds CostModel::collective_seconds(OpKind kind, GroupId group, Bytes payload) const {
  double sum = 0;
  for (LevelPlacement const& level : plan_.groups.placement(group)) {
    sum += collective_time(kind, payload, spread_of(level), system_).value;
  }
  return Seconds{sum};
}

Seconds CostModel::prefix_seconds(Op const& op) const {
  // The ranks of the stage agree, and what they have goes on to the next stage.
  GroupId const group = op.group.value();
  double sum = collective_seconds(OpKind::all_reduce, plan_.roles.tensor, op.payload).value;
  if (group == plan_.roles.job) {
    sum += collective_seconds(OpKind::all_reduce, plan_.roles.gradients, op.payload).value;
  }
  return Seconds{sum + collective_seconds(OpKind::ring_shift, group, op.payload).value};
}

Seconds CostModel::unique_seconds(Op const& op, ExchangeAttributes const& exchange) const {
  double sum = 0;
  for (LevelPlacement const& level : plan_.groups.placement(op.group.value())) {
    sum += unique_all_to_all_time(op.payload, exchange, spread_of(level), system_).value;
  }
  return Seconds{sum};
}

Seconds CostModel::replica_seconds(Op const& op) const {
  ReplicaTraffic const& replicas = system_.software.replicas;
  GroupId const group = op.group.value();
  if (op.kind == OpKind::all_gather) {
    double const moved = static_cast<double>(op.payload.count()) * replicas.gather_traffic.value;
    double const pieces = static_cast<double>(op.tensors) * plan_.groups.members(group);
    return Seconds{collective_seconds(op.kind, group, op.payload).value +
                   moved / streaming_rate(system_).value +
                   pieces * replicas.gather_piece.value.value};
  }
  std::int64_t const elements = op.payload.count() / element_size(gradient_type(plan_.config));
  Bytes const payload = replicas.gradient_bytes.value > 0
                            ? Bytes{elements * replicas.gradient_bytes.value}
                            : op.payload;
  OpKind const kind = replicas.reduces_whole.value ? OpKind::all_reduce : op.kind;
  Seconds const transfer = collective_seconds(kind, group, payload);
  double const bucket = static_cast<double>(replicas.bucket.value.count());
  bool const is_cut = bucket > 0 && overlaps_gradients(plan_.config);
  if (!is_cut) return transfer;
  double const calls = std::ceil(static_cast<double>(payload.count()) / bucket);
  double const per_call =
      replicas.call.value.value + replicas.call_per_rank.value.value * plan_.groups.members(group);
  return Seconds{transfer.value + calls * per_call};
}

MessageCost CostModel::message_cost(StageId from, StageId to) const {
  int const accelerators = system_.node.accelerators.value;
  auto const node_of = [&](StageId stage) {
    return plan_.groups.at_stage(RankId{0}, stage).value() / accelerators;
  };
  StageNodes const nodes{
      .from = node_of(from), .to = node_of(to), .nodes = nodes_per_stage(plan_, system_)};
  bool const is_near = nodes.from == nodes.to;
  Bytes const whole = plan_.message_bytes();
  Bytes const sent = plan_.sent_bytes();
  CollectiveCost const& link = system_.node.p2p.value;
  double const rate = is_near ? link.bandwidth.value
                              : network_share(system_).value / border_slowdown(nodes, system_);
  double latency = (is_near ? link.latency.value : system_.network.latency.value.value) +
                   system_.calibration.p2p_synchronisation.value.value +
                   system_.software.host.message.value.value / system_.node.host_speed.value;
  if (plan_.scatters_messages()) {
    latency += collective_seconds(OpKind::all_gather, plan_.roles.tensor, whole).value;
  }
  return {.latency = rounded(latency), .occupancy = rounded((sent / BytesPerSecond{rate}).value)};
}

int CostModel::slowdown_millionths() const {
  return static_cast<int>(std::lround(system_.calibration.overlap_slowdown.value * 1e6));
}

int CostModel::dispatch_slowdown_millionths() const {
  if (plan_.config.dispatch != Dispatch::deepep) return slowdown_millionths();
  double const occupied = plan_.config.parallel.dispatch_multiprocessors;
  return static_cast<int>(std::lround(occupied / system_.accelerator.multiprocessors.value * 1e6));
}

bool CostModel::leaves_multiprocessors() const {
  return plan_.config.dispatch == Dispatch::deepep &&
         traits_of(plan_.config.low_precision.implementation).leaves_multiprocessors;
}

int CostModel::data_parallel_slowdown_millionths() const {
  if (!crosses_nodes(plan_.roles.gradients)) return slowdown_millionths();
  double const of_units = system_.software.replicas.unit_slowdown.value;
  bool const is_given = plan_.config.sharding.has_units() && of_units > 0;
  double const slowdown = is_given ? of_units : system_.calibration.network_slowdown.value;
  return static_cast<int>(std::lround(slowdown * 1e6));
}

bool CostModel::shares_links_with_reductions(Op const& op) const {
  return traits_of(op.kind).op_class == OpClass::collective &&
         crosses_nodes(op.group.value()) == crosses_nodes(plan_.roles.gradients);
}

SimTime CostModel::iteration_overhead() const {
  HostCosts const& host = system_.software.host;
  double on_host = host.iteration.value.value;
  if (host.step_launches.value > 0) {
    on_host += host.step_launches.value * host.kernel.value.value * most_parameters(plan_);
  }
  return rounded(system_.calibration.iteration_overhead.value.value +
                 on_host / system_.node.host_speed.value);
}

bool CostModel::is_in_one_node(LevelPlacement const& level) const {
  return level.span < system_.node.accelerators.value;
}

NodeSpread CostModel::spread_of(LevelPlacement const& level) const {
  if (is_in_one_node(level)) return {.ranks = level.members, .per_node = level.members};
  int const stride = std::max(1, level.span / std::max(1, level.members - 1));
  int const per_node = std::max(1, system_.node.accelerators.value / stride);
  int const nodes_apart = std::max(1, stride / system_.node.accelerators.value);
  return {.ranks = level.members,
          .per_node = std::min(level.members, per_node),
          .stride = nodes_apart,
          .abreast = std::min(nodes_apart, nodes_per_stage(plan_, system_))};
}

bool CostModel::crosses_nodes(GroupId group) const {
  std::vector<LevelPlacement> const& levels = plan_.groups.placement(group);
  return !std::all_of(levels.begin(), levels.end(),
                      [&](LevelPlacement const& level) { return is_in_one_node(level); });
}

}  // namespace stagecraft
