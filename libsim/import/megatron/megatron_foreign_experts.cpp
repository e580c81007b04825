#include "libsim/import/megatron/megatron_foreign_experts.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "libsim/model/model_keys.hpp"
#include "libsim/units/parse_number.hpp"

namespace stagecraft {
namespace {

constexpr std::array<std::string_view, 5> flags_of_deepspeed{
    "deepspeed", "mlp-type", "expert-interval", "disable-moe-token-dropping",
    "enable-expert-tensor-parallelism"};

/// The residual MLP of PR-MoE: every token uses it beside its expert, and a softmax of two weighs
/// them.
void read_residual(MegatronArguments& arguments, ExpertsConfig& experts) {
  std::string const type = arguments.text("mlp-type").value_or("standard");
  if (type == "residual") {
    experts.shared_ffn_hidden = experts.ffn_hidden;
    experts.shared_gate = true;
    arguments.refuse("mlp-type", "standard",
                     {"a shared expert with a gate of one output, without biases",
                      "more time and memory", OmittedEffect::small});
  } else if (type != "standard") {
    arguments.report("mlp-type", "standard, residual");
  }
}

void read_deepspeed(MegatronArguments& arguments, TrainingConfig& config, ExpertsConfig& experts) {
  experts.grouped = false;
  experts.router.precision = RouterPrecision::fp32;
  experts.router.normalise = experts.per_token > 1;
  read_residual(arguments, experts);
  bool const splits_weights = arguments.has("enable-expert-tensor-parallelism");
  config.parallel.expert_tensor = splits_weights ? config.parallel.tensor : 1;
  if (arguments.has("disable-moe-token-dropping")) {
    config.routing.capacity.reset();
    return;
  }
  config.routing.capacity = config.routing.capacity.value_or(1);
  config.routing.pads = true;
  config.routing.drop = DropBy::position;
}

/// Experts lie on the ranks of the data-parallel group; if these are more, they split each expert.
void read_megablocks(MegatronArguments& arguments, TrainingConfig& config, ExpertsConfig& experts) {
  experts.grouped = true;
  experts.router.normalise = false;
  config.routing.pads = config.routing.capacity.has_value();
  config.parallel.expert_tensor = 1;
  if (!arguments.has("moe-expert-model-parallelism")) return;
  std::int64_t const replicas = config.parallel.data;
  std::int64_t const ranks = std::min(replicas, experts.count);
  if (experts.count % ranks != 0 || replicas % ranks != 0) {
    arguments.report("moe-expert-model-parallelism", "experts (" + std::to_string(experts.count) +
                                                         ") that the data-parallel ranks (" +
                                                         std::to_string(replicas) +
                                                         ") divide, or that divide these");
    return;
  }
  config.parallel.expert = static_cast<int>(ranks);
  config.parallel.expert_tensor = static_cast<int>(replicas / ranks);
}

}  // namespace

std::int64_t expert_count(MegatronArguments& arguments) {
  std::int64_t count = 0;
  std::vector<std::string> const texts = arguments.texts("num-experts");
  for (std::string const& text : texts) {
    auto const number = parse_number<std::int64_t>(text);
    if (!number || *number < 0 || *number > most_experts) {
      arguments.report("num-experts", "whole numbers from 0 to " + std::to_string(most_experts));
      return 0;
    }
    count = std::max(count, *number);
  }
  if (std::ranges::any_of(texts, [&](std::string const& n) { return n != texts.front(); })) {
    arguments.refuse("num-experts", "one number",
                     {"the largest number of experts in every sparse layer", "less memory"});
  }
  return count;
}

ExpertProgram expert_program(MegatronArguments const& arguments) {
  if (arguments.written_name("num-experts") == "moe-num-experts") return ExpertProgram::megablocks;
  bool const is_deepspeed = std::ranges::any_of(
      flags_of_deepspeed, [&](std::string_view flag) { return arguments.has(flag); });
  return is_deepspeed ? ExpertProgram::deepspeed : ExpertProgram::megatron;
}

std::vector<bool> layers_of_interval(MegatronArguments& arguments, std::int64_t layers) {
  std::int64_t const interval = arguments.integer("expert-interval", {1, 100'000}).value_or(2);
  std::vector<bool> sparse;
  sparse.reserve(static_cast<std::size_t>(layers));
  for (std::int64_t i = 0; i < layers; ++i) sparse.push_back((i + 1) % interval == 0);
  return sparse;
}

void read_foreign_experts(MegatronArguments& arguments,
                          ExpertProgram program,
                          TrainingConfig& config,
                          ExpertsConfig& experts) {
  RouterConfig& router = experts.router;
  router.order = RouterOrder::before;
  if (!arguments.has("moe-aux-loss-coeff")) {
    router.loss = RouterLoss::auxiliary;
    router.loss_coefficient = 0.1;
  }
  if (program == ExpertProgram::deepspeed) {
    read_deepspeed(arguments, config, experts);
  } else {
    read_megablocks(arguments, config, experts);
  }
}

}  // namespace stagecraft
