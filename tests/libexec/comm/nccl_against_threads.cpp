// Runs a small plan with ranks as processes that NCCL connects, on the emulation, and with ranks as
// threads on the same emulated device, and holds the two against each other: counted memory and ops
// must be the same, losses, gradient norms and parameters but for the order of sums.
//
// usage: nccl_against_threads PLAN, as each of several processes with torchrun's variables

#include <bit>
#include <cmath>
#include <iostream>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "libexec/backends/cuda_backend.hpp"
#include "libexec/backends/numbers.hpp"
#include "libexec/comm/cuda/nccl_world.hpp"
#include "libexec/comm/process_environment.hpp"
#include "libexec/executor/job.hpp"
#include "libsim/plan/make_plan.hpp"
#include "tests/libexec/comm/process_runs.hpp"
#include "tests/libexec/executor/small_runs.hpp"

namespace stagecraft {
namespace {

constexpr int steps = 3;

/// Ranks that split sequences.
std::optional<ParallelLayout> context_layout_named(std::string const& name) {
  if (name == "ring") return ParallelLayout{.context = 2, .context_method = ContextMethod::ring};
  if (name == "all_gather") {
    return ParallelLayout{.data = 2, .context = 2, .context_method = ContextMethod::all_gather};
  }
  if (name == "ulysses") {
    return ParallelLayout{.pipeline = 2, .context = 2, .context_method = ContextMethod::ulysses};
  }
  if (name == "two_levels") {
    return ParallelLayout{.context = 4, .context_method = ContextMethod::ring, .context_inner = 2};
  }
  return std::nullopt;
}

TrainingConfig config_named(std::string const& name, int processes) {
  bool const is_llama = name == "grouped_heads";
  TrainingConfig config = is_llama ? small_llama(Precision::fp32) : small_gpt(Precision::fp32);
  config.model.tied_embeddings = name == "tied";
  if (name == "tensor_sequence") {
    config.parallel = {.tensor = 2, .sequence = true};
  } else if (name == "pipeline") {
    config.parallel = {.pipeline = 2};
  } else if (name == "pipeline_overlapped") {
    config.parallel = {.pipeline = 4};
    config.schedule.p2p = P2p::overlapped;
  } else if (name == "interleaved" || name == "interleaved_overlapped") {
    config.parallel = {.tensor = 2, .pipeline = 2, .interleave = 2, .sequence = true};
    config.schedule.kind = ScheduleKind::interleaved;
    if (name == "interleaved_overlapped") config.schedule.p2p = P2p::overlapped;
  } else if (name == "data") {
    config.parallel = {.data = 4};
  } else if (name == "overlapped_gradients") {
    config = small_gpt(Precision::bf16);
    config.parallel = {
        .tensor = 2, .pipeline = 2, .data = 2, .sequence = true, .overlap_gradients = true};
    config.sharding = sharding_of(true);
  } else if (name == "sharded_units" || name == "copies_of_units") {
    config = small_llama(Precision::bf16);
    config.parallel = {.data = processes};
    config.sharding = default_sharding(ShardingKind::fsdp2);
    if (name == "copies_of_units") config.sharding.group = 2;
  } else if (name == "tied") {
    config.parallel = {.tensor = 2, .pipeline = 2};
  } else if (name == "grouped_heads") {
    config.parallel = {.tensor = 4};
  } else if (name == "hot_experts" || name == "natural_experts" || name == "gathered_experts" ||
             name == "shared_experts" || name == "limited_experts") {
    config = small_llama(Precision::fp32);
    config.model.experts = ExpertsConfig{.count = 4, .per_token = 2, .ffn_hidden = 12};
    config.parallel = {.tensor = 2, .data = 2, .sequence = true, .expert = 4};
    config.routing.is_natural = name != "hot_experts" && name != "limited_experts";
    if (name == "hot_experts") config.routing.factor = 1.5;
    if (name == "gathered_experts") config.dispatch = Dispatch::allgather;
    if (name == "shared_experts") {
      config.parallel.expert = 2;
      config.parallel.expert_tensor = 2;
    }
    if (name == "limited_experts") {
      config.dispatch = Dispatch::deepep;
      config.routing.capacity = 0.75;
      config.routing.is_of_microbatch = true;
    }
  } else if (std::optional<ParallelLayout> const layout = context_layout_named(name)) {
    config = small_llama(Precision::fp32);
    config.model.layers = 2;  // the emulation of flash attention is slow
    config.batch.global = 4;
    config.model.attention = Attention::flash;
    config.model.attention_dropout = 0;
    config.parallel = *layout;
  } else {
    throw std::runtime_error{"no plan has the name " + name};
  }
  return completed(config);
}

/// What sums in another order may change, as a part of the whole.
double tolerance(Precision precision) { return precision == Precision::fp32 ? 1e-4 : 3e-2; }

/// In doubles, so that they travel as numbers do.
Words parameters_of(RankContext const& context, RankExecutor& executor) {
  FlatRange const range = executor.parameters().weights();
  std::vector<std::byte> bytes(range.bytes());
  context.backend.read(bytes.data(), range.data, bytes.size());
  Words words;
  for (double const value : decode(bytes, range.type)) {
    words.push_back(std::bit_cast<std::int64_t>(value));
  }
  return words;
}

ExecutionOptions options() {
  ExecutionOptions options;
  options.steps = steps;
  options.traces = true;
  return options;
}

Outcome run_threads(TrainingConfig const& config) {
  Outcome outcome;
  outcome.parameters.resize(static_cast<std::size_t>(world_size(config.parallel)));
  SmallRun run{.options = options(), .device = DeviceKind::cuda};
  run.options.after_last = [&](RankContext const& context, RankExecutor& executor,
                               StepReport const&) {
    outcome.parameters[context.rank.index()] = parameters_of(context, executor);
  };
  outcome.execution = execute(config, run);
  return outcome;
}

/// The outcome is whole on rank 0.
Outcome run_processes(TrainingConfig const& config, LaunchedProcess& session) {
  TrainingPlan const plan = make_plan(as_settled(config));
  auto const tokens = synthetic_tokens(config.model.vocabulary, 7);  // as small_runs has them
  ExecutionParts const parts{
      .make_backend = [](KernelNeeds const& needs) { return make_cuda_backend(needs, 0); },
      .device = DeviceKind::cuda,
      .tokens = tokens.get()};
  Outcome outcome;
  ProcessWorld* world = nullptr;
  ExecutionOptions wanted = options();
  wanted.after_last = [&](RankContext const& context, RankExecutor& executor, StepReport const&) {
    outcome.parameters = world->gather(parameters_of(context, executor));
  };
  outcome.execution = execute_on_processes(
      plan, parts, wanted, session, [&](TrainingPlan const& of, JobClock const& /*clock*/) {
        auto made = make_nccl_world(of, session,
                                    {.timeout = std::chrono::seconds{60},
                                     .rendezvous = {.address = session.place().address}});
        world = made.get();
        return made;
      });
  return outcome;
}

bool are_close(double a, double b, double allowed) {
  return std::abs(a - b) <= allowed * std::abs(b);
}

/// Norm of the difference, as a part of the norm.
double distance(Words const& got, Words const& wanted) {
  double difference = 0;
  double norm = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    auto const a = std::bit_cast<double>(got[i]);
    auto const b = std::bit_cast<double>(wanted[i]);
    difference += (a - b) * (a - b);
    norm += b * b;
  }
  return std::sqrt(difference / norm);
}

/// \returns the largest distance between parameters of a rank
double require_close(Outcome const& a, Outcome const& b, double allowed) {
  auto const& got = a.execution.steps;
  auto const& wanted = b.execution.steps;
  require(got.size() == wanted.size(), "number of steps");
  for (std::size_t i = 0; i < got.size(); ++i) {
    require(are_close(got[i].loss, wanted[i].loss, allowed), "loss");
    require(are_close(got[i].gradient_norm, wanted[i].gradient_norm, allowed), "gradient norm");
    require(got[i].seconds > 0 && wanted[i].seconds > 0, "that time passes");
  }
  require(a.parameters.size() == b.parameters.size(), "number of ranks");
  double largest = 0;
  for (std::size_t i = 0; i < a.parameters.size(); ++i) {
    require(a.parameters[i].size() == b.parameters[i].size(), "number of parameters");
    largest = std::max(largest, distance(a.parameters[i], b.parameters[i]));
  }
  require(largest <= allowed, "parameters: " + std::to_string(largest));
  return largest;
}

int compare(std::string const& name, LaunchedProcess& session) {
  TrainingConfig const config = config_named(name, session.size());
  Outcome const processes = run_processes(config, session);
  if (session.rank() != RankId{0}) return 0;
  Outcome const threads = run_threads(config);
  require_same_books(processes.execution, threads.execution);
  double const largest = require_close(processes, threads, tolerance(config.model.precision));
  std::cout << name << ": " << processes.execution.ranks.size() << " ranks, loss "
            << threads.execution.steps.back().loss << ", parameters differ by " << largest << '\n';
  return 0;
}

}  // namespace
}  // namespace stagecraft

int main(int argc, char** argv) {
  using namespace stagecraft;
  prepare_nccl();
  LaunchedProcess session{find_process({}, from_environment), report_of};
  try {
    return compare(argc > 1 ? argv[1] : "", session);
  } catch (...) {
    session.fail(std::current_exception());
  }
}
