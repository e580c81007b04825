#include "libsim/import/megatron/megatron_experts.hpp"

#include <algorithm>
#include <utility>

#include "libsim/import/layer_list.hpp"
#include "libsim/import/megatron/megatron_foreign_experts.hpp"
#include "libsim/import/megatron/megatron_keys.hpp"
#include "libsim/import/number_ranges.hpp"
#include "libsim/model/model_keys.hpp"
#include "libsim/training/routing_check.hpp"
#include "libsim/units/parse_number.hpp"

namespace stagecraft {
namespace {

/// Finds the keys that say which layers are sparse: the fewest dense layers first.
bool set_pattern(std::vector<bool> const& sparse, ExpertsConfig& experts) {
  auto const layers = static_cast<std::int64_t>(sparse.size());
  auto const fits = [&] {
    for (std::int64_t i = 0; i < layers; ++i) {
      if (experts.is_sparse(i) != sparse[static_cast<std::size_t>(i)]) return false;
    }
    return true;
  };
  for (experts.every = 1; experts.every <= layers; ++experts.every) {
    std::int64_t const most = experts.every == 1 ? layers - 1 : 0;
    for (experts.first_dense = 0; experts.first_dense <= most; ++experts.first_dense) {
      for (experts.offset = 0; experts.offset < experts.every; ++experts.offset) {
        if (fits()) return true;
      }
    }
  }
  return false;
}

/// MindSpeed-LLM's --first-k-dense-replace makes the first layers dense, whatever the frequency is;
/// -1 makes none dense. Source: mindspeed_llm/core/transformer/transformer_block.py.
void read_layers(MegatronArguments& arguments,
                 ExpertProgram program,
                 std::int64_t layers,
                 ExpertsConfig& experts) {
  auto const text = arguments.text("moe-layer-freq");
  std::int64_t const dense = std::max<std::int64_t>(
      arguments.integer("first-k-dense-replace", {-1, layers - 1}).value_or(0), 0);
  bool const has_interval = program == ExpertProgram::deepspeed;
  if (!text && dense == 0 && !has_interval) return;
  auto sparse = has_interval ? layers_of_interval(arguments, layers)
                             : parse_layer_frequency(text.value_or("1"), layers);
  if (sparse) std::fill_n(sparse->begin(), dense, false);
  if (sparse && set_pattern(*sparse, experts)) return;
  experts = ExpertsConfig{.count = experts.count, .per_token = experts.per_token};
  arguments.report("moe-layer-freq",
                   "a number, or a list of 0 and 1 for the " + std::to_string(layers) +
                       " layers such as [0]*3+[1]*58, of dense layers before sparse ones or of "
                       "every n-th layer");
}

void read_router(MegatronArguments& arguments, ExpertsConfig& experts) {
  RouterConfig& router = experts.router;
  std::string const score = arguments.text("moe-router-score-function").value_or("softmax");
  bool const is_root = score == "sqrtsoftplus";
  if (is_root) {
    arguments.refuse("moe-router-score-function", "softmax, sigmoid",
                     {"a sigmoid of each logit", "either way in time", OmittedEffect::small});
  } else if (score != "softmax" && score != "sigmoid") {
    arguments.report("moe-router-score-function", "softmax, sigmoid");
  }
  if (score == "sigmoid" || is_root) router.score = RouterScore::sigmoid;
  if (arguments.has("moe-router-pre-softmax") && score == "softmax") {
    router.order = RouterOrder::before;
    router.normalise = false;
  }
  auto const number = [&](std::string_view flag) {
    return arguments.integer(flag, {1, 1 << 20}).value_or(1);
  };
  if (arguments.has("norm-topk-prob")) router.normalise = true;
  router.scaling = arguments.number("moe-router-topk-scaling-factor", {1e-9, 1e9}).value_or(1);
  router.groups = number("moe-router-num-groups");
  router.groups_per_token = number("moe-router-group-topk");
  std::string const type = arguments.text("moe-router-dtype").value_or("");
  if (!type.empty() && type != "fp32") {
    arguments.refuse("moe-router-dtype", "fp32, or a run without it",
                     {"a router in fp32", "more time and memory"});
  }
  bool const is_wide = !type.empty() || arguments.has("router-gating-in-fp32");
  router.precision = is_wide ? RouterPrecision::fp32 : RouterPrecision::model;
}

/// Coefficients of losses are below this one.
constexpr double largest_coefficient = 1e6;

/// The losses of the router, of which one counts choices.
/// Source: Megatron-LM, arguments.py: one coefficient for each type; by default aux_loss with 0.
void read_losses(MegatronArguments& arguments, RouterConfig& router) {
  std::vector<std::string> types = arguments.texts("moe-router-load-balancing-type");
  if (types.empty()) types = {"aux_loss"};
  if (std::ranges::find(types, "sinkhorn") != types.end()) {
    arguments.refuse("moe-router-load-balancing-type",
                     "aux_loss, seq_aux_loss, global_aux_loss, none",
                     {"the choice of the highest scores", "more time"});
    return;
  }
  std::vector<std::string> const texts = arguments.texts("moe-aux-loss-coeff");
  for (std::size_t i = 0; i < texts.size(); ++i) {
    auto const coefficient = parse_number<double>(texts[i]);
    if (!coefficient || *coefficient < 0 || *coefficient >= largest_coefficient) {
      arguments.report("moe-aux-loss-coeff", "numbers from 0 to below 1000000");
      return;
    }
    std::string const& type = types[std::min(i, types.size() - 1)];
    if (*coefficient == 0 || type == "none") continue;
    auto const loss = std::ranges::find(loss_types, type, &LossType::second);
    if (router.loss != RouterLoss::none || loss == loss_types.end()) {
      arguments.refuse(
          "moe-router-load-balancing-type", "one of aux_loss, seq_aux_loss, global_aux_loss, none",
          {"the first of these losses, if any", "more time and memory", OmittedEffect::small});
      return;
    }
    router.loss = loss->first;
    router.loss_coefficient = *coefficient;
  }
}

void read_dispatch(MegatronArguments& arguments, bool is_foreign, TrainingConfig& config) {
  std::string const type =
      arguments.text("moe-token-dispatcher-type").value_or(is_foreign ? "alltoall" : "allgather");
  if (type == "flex" || arguments.has("moe-enable-deepep")) {
    config.dispatch = Dispatch::deepep;
  } else if (type == "allgather" && (config.parallel.expert * config.parallel.expert_tensor > 1 ||
                                     arguments.has("moe-token-dispatcher-type"))) {
    config.dispatch = Dispatch::allgather;
    if (!arguments.has("moe-token-dispatcher-type")) {
      arguments.note("--moe-token-dispatcher-type left out: Megatron-LM takes allgather");
    }
  } else if (type == "alltoall_seq") {
    arguments.refuse(
        "moe-token-dispatcher-type", "alltoall, allgather, flex",
        {"alltoall, which sends tokens as sequence parallelism has them", "either way"});
  } else if (type != "allgather" && type != "alltoall") {
    arguments.report("moe-token-dispatcher-type", "alltoall, allgather, flex");
  }
  std::string const backend = arguments.text("moe-flex-dispatcher-backend").value_or("deepep");
  if (type == "flex" && backend != "deepep") {
    arguments.refuse("moe-flex-dispatcher-backend", "deepep", {"DeepEP", "less time"});
  }
  // megablocks takes 0, and Megatron-LM what is below it, as no capacity.
  config.routing.capacity = arguments.number("moe-expert-capacity-factor", {-1e6, 1e6});
  if (config.routing.capacity.value_or(1) <= 0) config.routing.capacity.reset();
  std::string const policy = arguments.text("moe-token-drop-policy").value_or("probs");
  if (policy != "probs" && policy != "position") {
    arguments.report("moe-token-drop-policy", "probs, position");
  }
  if (!config.routing.capacity) return;
  config.routing.pads = arguments.has("moe-pad-expert-input-to-capacity");
  if (policy == "position") config.routing.drop = DropBy::position;
}

/// The experts of a layer at which no choice is dropped, however uneven they are.
void limit_capacity(MegatronArguments& arguments, ExpertsConfig const& experts, Routing& routing) {
  double const most = static_cast<double>(experts.count) / static_cast<double>(experts.per_token);
  if (routing.capacity.value_or(0) <= most) return;
  arguments.refuse("moe-expert-capacity-factor",
                   "experts over choices of a token (" + std::to_string(experts.count) + " / " +
                       std::to_string(experts.per_token) + ") at most",
                   {"that capacity, at which no choice is dropped", "more memory"});
  routing.capacity = most;
}

/// Leaves out what is not modelled beside experts.
void read_beside_experts(MegatronArguments& arguments,
                         TrainingConfig& config,
                         ExpertsConfig& experts) {
  if (experts.biases && experts.shared_ffn_hidden > 0) {
    arguments.refuse(
        "moe-shared-expert-intermediate-size",
        "--disable-bias-linear beside it, as Megatron-LM wants it",
        {"shared experts without biases", "more time and memory", OmittedEffect::small});
  }
  if (experts.biases && config.parallel.expert_tensor > 1) {
    arguments.refuse("num-experts",
                     "--disable-bias-linear beside it, or --expert-tensor-parallel-size 1, as "
                     "Megatron-Core wants it",
                     {"experts without biases", "more time and memory", OmittedEffect::small});
    experts.biases = arguments.is_strict();
  }
  if (config.model.norms == NormPlaces::both) {
    arguments.refuse("post-norm", "a run without it, as the model has experts",
                     {"norms before attention and experts alone", "more time and memory"});
    config.model.norms = NormPlaces::pre;
  }
}

}  // namespace

std::string layer_frequency(ExpertsConfig const& experts, std::int64_t layers) {
  std::vector<bool> sparse;
  sparse.reserve(static_cast<std::size_t>(layers));
  for (std::int64_t i = 0; i < layers; ++i) sparse.push_back(experts.is_sparse(i));
  return layer_list(sparse);
}

std::optional<std::vector<bool>> parse_layer_frequency(std::string_view text, std::int64_t layers) {
  auto const every = parse_number<std::int64_t>(text);
  if (!every) return parse_layer_list(text, layers);
  if (*every == 0) return std::nullopt;
  std::vector<bool> sparse;
  for (std::int64_t i = 0; i < layers; ++i) sparse.push_back(i % *every == 0);
  return sparse;
}

bool fuses_weighting(Activation activation) {
  return activation == Activation::swiglu || activation == Activation::swiglu_clamped;
}

void read_megatron_experts(MegatronArguments& arguments, TrainingConfig& config) {
  std::int64_t const count = expert_count(arguments);
  ExpertProgram const program = expert_program(arguments);
  bool const is_foreign = program != ExpertProgram::megatron;
  // One expert is DeepSpeed's word for a dense model.
  if (count == 0 || (count == 1 && program == ExpertProgram::deepspeed)) return;
  ExpertsConfig experts{
      .count = count,
      .per_token = arguments.integer("moe-router-topk", {1, count}).value_or(is_foreign ? 1 : 2)};
  read_layers(arguments, program, config.model.layers, experts);
  experts.ffn_hidden =
      arguments.integer("moe-ffn-hidden-size", widths).value_or(config.model.ffn_hidden);
  // MindSpeed-LLM counts them.
  std::int64_t const shared =
      arguments.integer("n-shared-experts", {0, widths.largest / experts.ffn_hidden}).value_or(0);
  experts.shared_ffn_hidden =
      arguments.integer("moe-shared-expert-intermediate-size", {0, widths.largest})
          .value_or(shared * experts.ffn_hidden);
  experts.shared_gate = arguments.has("moe-shared-expert-gate") && experts.shared_ffn_hidden > 0;
  read_router(arguments, experts);
  FlagReader reader{arguments};
  visit_keys(reader, experts);
  read_losses(arguments, experts.router);
  auto const degree = [&](std::string_view flag, int fallback) {
    return static_cast<int>(arguments.integer(flag, {1, 1'000'000}).value_or(fallback));
  };
  config.parallel.expert = degree("expert-model-parallel-size", 1);
  config.parallel.expert_tensor = degree("expert-tensor-parallel-size", config.parallel.tensor);
  if (config.parallel.expert_tensor > 1 && !is_foreign &&
      !arguments.has("expert-tensor-parallel-size") && !arguments.has("moe-tp-extend-ep")) {
    arguments.note("--expert-tensor-parallel-size left out: Megatron-LM takes that of tensor, " +
                   std::to_string(config.parallel.tensor));
  }
  read_dispatch(arguments, is_foreign, config);
  config.parallel.expert_overlap = arguments.has("overlap-moe-expert-parallel-comm");
  if (arguments.has("moe-shared-expert-overlap") && experts.shared_ffn_hidden > 0) {
    config.parallel.shared_expert_overlap = config.dispatch == Dispatch::alltoall;
    if (!config.parallel.shared_expert_overlap) {
      arguments.refuse("moe-shared-expert-overlap",
                       "--moe-token-dispatcher-type alltoall beside it, as Megatron-LM wants it",
                       {"shared experts before the router", "less time"});
    }
  }
  experts.fused_weighting =
      fuses_weighting(config.model.activation) || arguments.has("use-fused-weighted-squared-relu");
  experts.grouped = arguments.has("moe-grouped-gemm");
  experts.biases = config.model.biases;
  if (arguments.has("moe-tp-extend-ep")) {
    config.parallel.expert *= config.parallel.expert_tensor;
    config.parallel.expert_tensor = 1;
  }
  if (is_foreign) read_foreign_experts(arguments, program, config, experts);
  if (!experts.grouped) {
    arguments.note("no --moe-grouped-gemm: times are those of grouped products nevertheless");
  }
  limit_capacity(arguments, experts, config.routing);
  read_beside_experts(arguments, config, experts);
  config.model.experts = experts;
  if (settle_routing(config)) {
    arguments.note("the " + std::to_string(choices_of_rank(config, experts)) +
                   " choices of a rank's tokens do not divide by " + std::to_string(experts.count) +
                   " experts: routing.factor 1, as even as can be");
  }
}

}  // namespace stagecraft
