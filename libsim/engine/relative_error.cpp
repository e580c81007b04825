#include "libsim/engine/relative_error.hpp"

#include <algorithm>
#include <cmath>

namespace stagecraft {
namespace {

/// Seconds of passes, by cause.
struct PassParts {
  double products = 0;
  double kernels = 0;
  double exposed = 0;
  double collectives = 0;
  double host = 0;
  double duration = 0;

  void add(PassParts const& other) {
    products += other.products;
    kernels += other.kernels;
    exposed += other.exposed;
    collectives += other.collectives;
    host += other.host;
    duration += other.duration;
  }
};

PassParts parts_of(std::vector<Op> const& ops, PassTimes const& times, CostModel const& cost) {
  PassParts parts;
  parts.duration = to_seconds(times.duration);
  SimTime host{0};
  for (std::size_t i = 0; i < ops.size(); ++i) {
    double const seconds = to_seconds(times.end[i] - times.start[i]);
    OpClass const op_class = traits_of(ops[i].kind).op_class;
    host += cost.host_time(ops[i]);
    if (op_class == OpClass::collective) {
      parts.collectives += seconds;
    } else if (op_class == OpClass::compute) {
      bool const is_product = std::holds_alternative<GemmAttributes>(ops[i].attributes) ||
                              std::holds_alternative<FlashAttributes>(ops[i].attributes);
      (is_product ? parts.products : parts.kernels) += seconds;
    }
  }
  if (host > SimTime{0} && host == times.duration) {
    return {.host = parts.duration, .duration = parts.duration};  // the streams wait for the host
  }
  parts.exposed = std::max(0.0, parts.duration - parts.products - parts.kernels);
  return parts;
}

/// Both passes of a block.
struct BlockParts {
  PassParts forward;
  PassParts backward;
};

/// By block of the plan. Stages have hundreds of blocks, but few distinct ones.
std::vector<BlockParts> parts_of_blocks(CostedPlan const& costed) {
  std::vector<BlockProgram> const& blocks = costed.plan().programs.blocks;
  std::vector<BlockParts> parts;
  parts.reserve(blocks.size());
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    auto const of = [&](Pass pass) {
      return parts_of(blocks[b].ops(pass), costed.blocks()[b].times(pass), costed.cost());
    };
    parts.push_back({of(Pass::forward), of(Pass::backward)});
  }
  return parts;
}

/// A pass of each chunk of a stage, forward and backward.
PassParts parts_of_stage(TrainingPlan const& plan,
                         std::vector<BlockParts> const& blocks,
                         StageId stage) {
  PassParts parts;
  for (StageChunk const& chunk : plan.stages[stage].chunks) {
    for (std::int32_t const block :
         plan.programs.chunks[static_cast<std::size_t>(chunk.program)].blocks) {
      BlockParts const& of_block = blocks[static_cast<std::size_t>(block)];
      parts.add(of_block.forward);
      parts.add(of_block.backward);
    }
  }
  return parts;
}

}  // namespace

ErrorTerms error_terms(CostedPlan const& costed, SimTime iteration) {
  TrainingPlan const& plan = costed.plan();
  ParallelLayout const& parallel = plan.config.parallel;
  System const& system = costed.system();
  int const per_node = system.node.accelerators.value;
  std::vector<BlockParts> const blocks = parts_of_blocks(costed);
  StageId busiest{0};
  PassParts parts;
  double microbatch = 0;
  for (StageId const stage : plan.stages.ids()) {
    PassParts const of_stage = parts_of_stage(plan, blocks, stage);
    if (of_stage.duration <= microbatch) continue;
    microbatch = of_stage.duration;
    parts = of_stage;
    busiest = stage;
  }
  double const whole = to_seconds(iteration);
  double optimizer = 0;
  double replicas = 0;
  double offloaded = 0;
  for (TaskProfile const& task : costed.tasks(busiest.index())) {
    optimizer += to_seconds(task.shares.optimizer);
    replicas += to_seconds(task.shares.data_parallel);
    offloaded += to_seconds(task.shares.offload);
  }
  double const overhead = to_seconds(costed.cost().iteration_overhead());
  // Each of two copies of the model computes half of the microbatches.
  auto const count = static_cast<double>(microbatches(plan.config)) / plan.placement.copies();
  double const computed = count * microbatch;
  // The other stages fill and drain the pipeline for the time of p - 1 microbatches of a chunk.
  double const bubble = computed / count * (parallel.pipeline - 1) / parallel.interleave;
  double const rest = std::max(0.0, whole - computed - bubble - optimizer - overhead);
  double const of_host = std::min(offloaded, rest);
  double const reduced = std::min(replicas, rest - of_host);
  double const scale = microbatch > 0 ? std::min(whole, computed + bubble) / microbatch / whole : 0;

  ErrorTerms terms;
  terms.products = parts.products * scale;
  terms.kernels = parts.kernels * scale + optimizer / whole;
  bool const is_tensor_near = parallel.tensor <= per_node;
  bool const is_near = world_size(parallel) <= per_node;
  (is_tensor_near ? terms.node : terms.network) += parts.exposed * scale;
  (is_near ? terms.node : terms.network) += (rest - of_host) / whole;
  terms.host = parts.host * scale + (overhead + of_host) / whole;
  terms.hidden =
      (std::max(0.0, parts.collectives - parts.exposed) * scale) + (replicas - reduced) / whole;
  terms.is_network_measured = !system.network.bus_bandwidth.value.empty();
  terms.is_host_fitted = !system.software.host.kernel.fitted.empty();
  return terms;
}

double relative_error(ErrorTerms const& terms) {
  constexpr double shapes = 6;
  double const product = std::hypot(0.02, 0.025 / std::sqrt(shapes));
  double const network = terms.is_network_measured ? 0.05 : 0.15;
  double const host = terms.is_host_fitted ? 0.05 : 0.20;
  double square = 0;
  for (auto const& [fraction, deviation] : {std::pair{terms.products, product},
                                            {terms.kernels, 0.04},
                                            {terms.node, 0.05},
                                            {terms.network, network},
                                            {terms.host, host},
                                            {terms.hidden, 0.29}}) {
    square += fraction * fraction * deviation * deviation;
  }
  return std::sqrt(square);
}

}  // namespace stagecraft
