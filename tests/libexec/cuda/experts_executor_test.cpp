#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "libexec/backends/cpu_backend.hpp"
#include "libexec/backends/cuda_backend.hpp"
#include "libexec/executor/job.hpp"
#include "libsim/model/model_names.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/training/key_values.hpp"
#include "libsim/training/training_names.hpp"
#include "tests/libexec/executor/run_checks.hpp"

// Whole iterations of mixtures of experts on a CUDA device, held against the CPU.

namespace stagecraft {
namespace {

/// First a dense layer; scores by sigmoid, in groups of experts, as DeepSeek-V3 has them.
TrainingConfig sigmoid_mixture(Precision precision) {
  TrainingConfig config = small_mixture(precision);
  config.model.experts->first_dense = 1;
  config.model.experts->router = {.score = RouterScore::sigmoid,
                                  .scaling = 2.5,
                                  .loss = RouterLoss::sequence_auxiliary,
                                  .loss_coefficient = 0.3};
  return config;
}

/// A gate on shared experts, a softmax over all experts, and the losses of routers, of which one is
/// over the whole batch.
TrainingConfig gated_mixture(Precision precision, RouterLoss loss) {
  TrainingConfig config = small_mixture(precision);
  config.model.experts->shared_gate = true;
  config.model.experts->router = {.order = RouterOrder::before,
                                  .normalise = false,
                                  .loss = loss,
                                  .loss_coefficient = 0.3,
                                  .z_loss = 0.02};
  return config;
}

TrainingConfig biased_mixture(Precision precision, ProbabilitiesOn where) {
  TrainingConfig config = small_gpt(precision);
  config.model.experts = ExpertsConfig{
      .count = 4, .per_token = 2, .ffn_hidden = 12, .probabilities_on = where, .biases = true};
  return config;
}

std::vector<TrainingConfig> mixtures(Precision precision) {
  return {small_mixture(precision),
          sigmoid_mixture(precision),
          gated_mixture(precision, RouterLoss::auxiliary),
          gated_mixture(precision, RouterLoss::global_auxiliary),
          mixture_on_input(precision),
          biased_mixture(precision, ProbabilitiesOn::output),
          biased_mixture(precision, ProbabilitiesOn::input)};
}

/// Counts that differ from layer to layer, and in one microbatch from the others.
Routing counted() {
  CountsFile file{"counts.csv",
                  {{0, every_microbatch, {16, 9, 4, 3}},
                   {1, every_microbatch, {0, 16, 0, 16}},
                   {2, every_microbatch, {8, 8, 8, 8}},
                   {3, every_microbatch, {1, 2, 15, 14}},
                   {0, BatchMicrobatchId{2}, {3, 4, 9, 16}},
                   {3, BatchMicrobatchId{0}, {10, 10, 6, 6}}}};
  return {.counts = SharedCounts{std::move(file)}};
}

std::vector<Routing> routings() {
  return {Routing{},
          counted(),
          Routing{.is_natural = true},
          Routing{.capacity = 1.25},
          Routing{.capacity = 1, .pads = false, .drop = DropBy::position},
          Routing{.capacity = 0.75, .pads = true, .is_of_microbatch = true}};
}

/// The model with a routing; counts of two choices of a token are not those of another number.
TrainingConfig with(TrainingConfig config, Routing const& routing) {
  bool const fits = !routing.counts || config.model.experts->per_token == 2;
  if (fits) config.routing = routing;
  return config;
}

struct Layout {
  std::string name;
  ParallelLayout parallel;
  bool is_sharded = false;
};

std::vector<Layout> expert_layouts() {
  return {{"one rank", expert_layout(1, 1, 1, 1, 1)},
          {"d2 ep2", expert_layout(1, 1, 2, 2, 1)},
          {"d4 ep4", expert_layout(1, 1, 4, 4, 1)},
          {"d4 ep2 sharded", expert_layout(1, 1, 4, 2, 1), true},
          {"t2 ep2", expert_layout(2, 1, 1, 2, 1)},
          {"t2 etp2", expert_layout(2, 1, 1, 1, 2)},
          {"t2 d2 ep4", expert_layout(2, 1, 2, 4, 1)},
          {"t2 d2 ep2 etp2", expert_layout(2, 1, 2, 2, 2)},
          {"p2 d2 ep2", expert_layout(1, 2, 2, 2, 1)},
          {"t2 p2 d2 ep2 sharded", expert_layout(2, 2, 2, 2, 1), true}};
}

TrainingConfig with(TrainingConfig config, Layout const& layout) {
  config.parallel = layout.parallel;
  config.sharding = sharding_of(layout.is_sharded);
  return config;
}

/// Biases of experts that several ranks share are not built.
bool is_refused(TrainingConfig const& config) {
  return config.model.experts->biases && config.parallel.expert_tensor > 1;
}

TEST_CASE("gradients of mixtures on a device are those of the CPU", "[cuda]") {
  auto const precision = GENERATE(Precision::fp64, Precision::fp32, Precision::bf16);
  for (TrainingConfig const& config : mixtures(precision)) {
    CAPTURE(name_of(config.model.experts->router.loss), config.model.experts->biases);
    require_close(gradients_of(config, on_device()), gradients_of(config),
                  device_tolerance(precision));
  }
}

TEST_CASE("mixtures in every layout on a device have the gradients of the CPU", "[cuda]") {
  std::vector<TrainingConfig> const models = mixtures(Precision::fp64);
  std::vector<Routing> const ways = routings();
  std::vector const dispatches{Dispatch::alltoall, Dispatch::allgather, Dispatch::deepep};
  std::size_t turn = 0;
  for (Layout const& layout : expert_layouts()) {
    for (int again = 0; again < 3; ++again, ++turn) {
      TrainingConfig config =
          with(with(models[turn % models.size()], layout), ways[turn % ways.size()]);
      if (is_refused(config)) continue;
      config.dispatch = dispatches[(turn + turn / 6) % dispatches.size()];
      CAPTURE(layout.name, to_json(config.routing).dump(), name_of(config.dispatch));
      require_close(gradients_of(config, on_device()), gradients_of(config), 1e-11);
    }
  }
}

TEST_CASE("experts on a device take uneven rows in every way of dispatch", "[cuda]") {
  Layout const layout{"t2 d2 ep4", expert_layout(2, 1, 2, 4, 1)};
  for (Routing const& routing : routings()) {
    for (Dispatch const dispatch : {Dispatch::alltoall, Dispatch::allgather, Dispatch::deepep}) {
      CAPTURE(to_json(routing).dump(), name_of(dispatch));
      TrainingConfig config = with(with(small_mixture(Precision::fp64), layout), routing);
      config.dispatch = dispatch;
      require_close(gradients_of(config, on_device()), gradients_of(config), 1e-11);
    }
  }
}

TEST_CASE("recomputed experts on a device have the bits of stored ones", "[cuda]") {
  TrainingConfig stored = small_mixture(GENERATE(Precision::fp32, Precision::bf16));
  stored.parallel = expert_layout(2, 1, 2, 2, 1);
  stored.routing = GENERATE(Routing{}, Routing{.is_natural = true});
  stored.dispatch = GENERATE(Dispatch::alltoall, Dispatch::deepep);
  std::vector<WholeTensor> const wanted = gradients_of(stored, on_device());
  for (RecomputePolicy const& policy :
       {selective({"moe"}), selective({"moe_act", "layernorm"}),
        RecomputePolicy{.granularity = RecomputeGranularity::full}}) {
    CAPTURE(policy.modules);
    TrainingConfig recomputed = stored;
    recomputed.recompute = {policy};
    require_same_bits(gradients_of(recomputed, on_device()), wanted);
  }
}

TEST_CASE("products of experts that are measured have the CPU's gradients", "[cuda]") {
  TrainingConfig config = small_mixture(Precision::fp32);
  config.parallel = expert_layout(1, 1, 2, 2, 1);
  config.routing = GENERATE(Routing{}, counted());
  SmallRun fastest = on_device();
  fastest.fastest_products = true;
  require_close(gradients_of(config, fastest), gradients_of(config), 1e-5);
}

TEST_CASE("training mixtures on a device follows training on the CPU", "[cuda]") {
  TrainingConfig config = gated_mixture(Precision::fp64, RouterLoss::global_auxiliary);
  config.parallel = expert_layout(2, 2, 2, 2, 1);
  config.sharding = sharding_of(true);
  config.routing = Routing{.is_natural = true};
  constexpr int steps = 4;
  auto const device = execute(config, on_device(steps)).steps;
  auto const cpu = execute(config, {.options = {.steps = steps}}).steps;
  for (std::size_t i = 0; i < steps; ++i) {
    CAPTURE(i);
    REQUIRE(device[i].loss == Approx(cpu[i].loss).epsilon(1e-11));
    REQUIRE(device[i].next_token_loss.value() ==
            Approx(cpu[i].next_token_loss.value()).epsilon(1e-11));
    REQUIRE(device[i].gradient_norm == Approx(cpu[i].gradient_norm).epsilon(1e-11));
  }
}

TEST_CASE("a device counts the bytes of mixtures that the CPU counts", "[cuda]") {
  std::vector<RecomputePolicy> const policies{
      {}, selective({"moe"}), selective({"moe_act"}), {.granularity = RecomputeGranularity::full}};
  std::vector<Routing> const ways = routings();
  std::vector const dispatches{Dispatch::alltoall, Dispatch::allgather, Dispatch::deepep};
  std::size_t turn = 0;
  for (Layout const& layout : expert_layouts()) {
    for (int again = 0; again < 3; ++again, ++turn) {
      Routing const& routing = ways[(turn + turn / 6) % ways.size()];
      // What routers choose in 16 bits may depend on the device.
      auto const models = mixtures(routing.is_natural ? Precision::fp64 : Precision::bf16);
      TrainingConfig config = with(with(models[turn % models.size()], layout), routing);
      if (is_refused(config)) config = with(with(models.front(), layout), routing);
      config.dispatch = dispatches[turn % dispatches.size()];
      config.recompute = {policies[turn % policies.size()]};
      CAPTURE(layout.name, to_json(routing).dump(), name_of(config.dispatch));
      require_same_memory(config);
    }
  }
}

TEST_CASE("a rank alone on a device counts the bytes of its experts, and stays finite", "[cuda]") {
  TrainingConfig config = small_mixture(Precision::fp64);
  config.parallel = expert_layout(2, 1, 2, 2, GENERATE(1, 2));
  config.routing = GENERATE(Routing{}, counted(), Routing{.is_natural = true});
  // Alone a rank has uneven rows with that of these alone.
  config.dispatch = config.routing.is_balanced() ? Dispatch::deepep : Dispatch::alltoall;
  TrainingPlan const plan = make_plan(as_settled(completed(config)));
  auto const tokens = synthetic_tokens(config.model.vocabulary, 7);
  FreeCommunication const costs;
  auto const alone = [&](DeviceKind device) {
    ExecutionParts const parts{.make_backend =
                                   [device](KernelNeeds const& needs) {
                                     return device == DeviceKind::cuda
                                                ? make_cuda_backend(needs, 0)
                                                : make_cpu_backend(needs, {});
                                   },
                               .device = device,
                               .tokens = tokens.get(),
                               .costs = &costs};
    return execute_solo(plan, RankId{1}, parts, {.steps = 2});
  };
  Execution const device = alone(DeviceKind::cuda);
  CategoryBytes got = device.ranks.front().at_peak;
  CategoryBytes wanted = alone(DeviceKind::cpu).ranks.front().at_peak;
  got[Category::workspace] = 0;
  wanted[Category::workspace] = 0;
  REQUIRE(got == wanted);
  for (StepReport const& step : device.steps) REQUIRE(std::isfinite(step.gradient_norm));
}

}  // namespace
}  // namespace stagecraft
