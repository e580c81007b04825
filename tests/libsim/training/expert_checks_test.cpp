#include <catch2/catch.hpp>
#include <string>

#include "libsim/schedule/generators/generators.hpp"
#include "libsim/schedule/orders/order_text.hpp"
#include "libsim/training/training_config_reader.hpp"

namespace stagecraft::expert_checks_test {
namespace {

/// Reads sections below a model of 12 layers, h = 64, a = 8, s = 32, with 8 experts of which a token
/// uses 2, unless `experts` says otherwise.
TrainingConfig read(std::string const& sections,
                    std::string const& experts = "{count: 8, per_token: 2, ffn_hidden: 96}") {
  std::string const text =
      "model: {layers: 12, hidden: 64, heads: 8, sequence: 32, vocabulary: 100, experts: " +
      experts + "}\n" + sections;
  Diagnostics diagnostics;
  auto const root = parse_yaml(text, "x.yaml", diagnostics);
  diagnostics.throw_if_any();
  TrainingConfig config = read_training_config(ConfigNode{*root, "", diagnostics});
  diagnostics.throw_if_any();
  return config;
}

std::string message(std::string const& sections,
                    std::string const& experts = "{count: 8, per_token: 2, ffn_hidden: 96}") {
  try {
    read(sections, experts);
  } catch (ConfigError const& error) {
    return error.what();
  }
  return "no error";
}

TEST_CASE("expert parallelism is refused without experts", "[plan]") {
  REQUIRE(message("parallel: {expert: 2}", "none") ==
          "x.yaml:2:20: parallel.expert: found '2'; accepted: 1, as the model has no experts");
  REQUIRE(message("parallel: {expert_tensor: 2}", "none") ==
          "x.yaml:2:27: parallel.expert_tensor: found '2'; accepted: 1, as the model has no "
          "experts");
}

TEST_CASE(
    "communication of experts behind computation pairs interleaved 1F1B, and on one stage 1F1B",
    "[plan]") {
  TrainingConfig const staged = read(
      "parallel: {pipeline: 2, interleave: 2, data: 2, expert: 2, expert_overlap: true}\n"
      "batch: {global: 8}\nschedule: interleaved\n");
  REQUIRE(staged.schedule.kind == ScheduleKind::order);
  REQUIRE(*staged.schedule.order == expert_overlap_order(2, 4, 2, 2));
  // Megatron-LM, combined_1f1b.py: a first forward, pairs, a last backward.
  TrainingConfig const alone = read(
      "parallel: {data: 2, expert: 2, expert_overlap: true}\nbatch: {global: 6}\n"
      "schedule: 1f1b\n");
  REQUIRE(order_text(alone.schedule.order->stages.front()) == "F0.0 F1.0+B0.0 F2.0+B1.0 B2.0");
  auto const refused = [](std::string const& sections, std::string const& text) {
    REQUIRE_THAT(message(sections + "\nbatch: {global: 8}\n"), Catch::Contains(text));
  };
  refused("parallel: {expert_overlap: true}",
          "parallel.expert: found '1' (the default); accepted: at least 2");
  refused("parallel: {data: 2, expert: 2, expert_overlap: true}\nschedule: gpipe",
          "schedule: found 'gpipe'; accepted: 1f1b, or the order that it comes to");
  refused("parallel: {data: 2, expert: 2, expert_overlap: true}\nrecompute: full",
          "recompute: found 'full'; accepted: none, or selective without moe");
}

TEST_CASE("shared experts compute beside exchanges of rows only", "[plan]") {
  std::string const shared = "{count: 8, per_token: 2, ffn_hidden: 96, shared_ffn_hidden: 32}";
  std::string const parallel =
      "parallel: {data: 2, expert: 2, shared_expert_overlap: true}\nbatch: {global: 2}\n";
  REQUIRE(read(parallel, shared).parallel.shared_expert_overlap);
  REQUIRE(message(parallel) ==
          "x.yaml:2:55: parallel.shared_expert_overlap: found 'true'; accepted: false, as no layer "
          "has shared experts (model.experts.shared_ffn_hidden)");
  for (std::string const dispatch : {"allgather", "deepep"}) {
    REQUIRE_THAT(message(parallel + "dispatch: " + dispatch, shared),
                 Catch::Contains("dispatch: found '" + dispatch +
                                 "'; accepted: alltoall, as "
                                 "parallel.shared_expert_overlap is true"));
  }
  REQUIRE_THAT(
      message(parallel + "recompute: {granularity: selective, modules: [shared_experts]}", shared),
      Catch::Contains(
          "recompute.modules[0]: found 'shared_experts'; accepted: modules without shared_experts, "
          "as parallel.shared_expert_overlap is true"));
  REQUIRE_THAT(message("parallel: {data: 2, expert: 2, shared_expert_overlap: true, "
                       "expert_overlap: true}\nbatch: {global: 6}\nschedule: 1f1b\n",
                       shared),
               Catch::Contains("parallel.shared_expert_overlap: found 'true'; accepted: false, as "
                               "parallel.expert_overlap is true"));
}

TEST_CASE("experts are cut by divisors, over tensor and data ranks, with sequence parallelism",
          "[plan]") {
  auto const refused = [](std::string const& sections, std::string const& text) {
    REQUIRE_THAT(message(sections), Catch::Contains(text));
  };
  refused("parallel: {expert: 3, data: 3}",
          "parallel.expert: found '3'; accepted: a divisor of model.experts.count (8)");
  refused(
      "parallel: {expert_tensor: 5, data: 5}",
      "parallel.expert_tensor: found '5'; accepted: a divisor of model.experts.ffn_hidden (96)");
  refused("parallel: {expert: 4, data: 2}",
          "parallel.expert: found '4'; accepted: a number whose product with "
          "parallel.expert_tensor (1) divides tensor x context x data (2)");
  refused("parallel: {expert: 2, data: 4}\nsharding: {kind: megatron_fsdp, group: 2}",
          "sharding.group: found '2'; accepted: 0, as parallel.expert is 2");
  refused("parallel: {tensor: 2}",
          "parallel.sequence: found 'false' (the default); accepted: true, as the model has "
          "experts and parallel.tensor is 2");
}

TEST_CASE("choices that do not divide by the experts are made as even as they can be", "[plan]") {
  // 32 tokens of a rank make 64 choices; of a context rank 16 tokens make 32.
  REQUIRE(read("", "{count: 16, per_token: 2, ffn_hidden: 96}").routing.is_balanced());
  REQUIRE(read("", "{count: 24, per_token: 2, ffn_hidden: 96}").routing.factor == 1);
  std::string const flash = "ffn_hidden: 96}, attention: flash, dropout: 0";
  REQUIRE(read("", "{count: 64, per_token: 2, " + flash).routing.is_balanced());
  REQUIRE(read("parallel: {context: 2}", "{count: 64, per_token: 2, " + flash).routing.factor == 1);
  REQUIRE_FALSE(
      read("routing: natural", "{count: 24, per_token: 2, ffn_hidden: 96}").routing.factor);
}

TEST_CASE("keys of experts that do not go together are refused", "[plan]") {
  std::string const keys = "{count: 8, per_token: 2, ffn_hidden: 96, ";
  REQUIRE(message("", keys + "biases: true}") == "no error");
  // Megatron-LM, transformer_config.py: "Bias in Moe is only supported when ETP==1".
  REQUIRE_THAT(message("parallel: {expert_tensor: 2, data: 2}", keys + "biases: true}"),
               Catch::Contains("parallel.expert_tensor: found '2'; accepted: 1, as "
                               "model.experts.biases is true, as in Megatron-Core"));
  REQUIRE(message("", keys + "shared_ffn_hidden: 8, shared_gate: true}") == "no error");
  REQUIRE(message("", keys + "probabilities_on: input}") == "no error");
  REQUIRE(message("", keys + "router: {loss: auxiliary, loss_coefficient: 0.1, z_loss: 0.1}}") ==
          "no error");
  REQUIRE(message("routing: natural", keys + "biases: false}, positions: rotary, "
                                             "predicted_tokens: 1") == "no error");
  std::string const over_batch = keys + "router: {loss: global_auxiliary, loss_coefficient: 0.1}}";
  REQUIRE(message("", over_batch) == "no error");
  REQUIRE_THAT(message("parallel: {pipeline: 2, interleave: 2}\nbatch: {global: 4}\n"
                       "schedule: dualpipe",
                       over_batch),
               Catch::Contains("model.experts.router.loss: found 'global_auxiliary'; accepted: "
                               "none, auxiliary or sequence_auxiliary, as schedule is dualpipe, "
                               "which has two copies of the model"));
  REQUIRE(message("dispatch: allgather") == "no error");
  REQUIRE(message("parallel: {data: 2, expert_tensor: 2}\nbatch: {global: 2}\ndispatch: "
                  "allgather") == "no error");
  REQUIRE(message("dispatch: deepep") == "no error");
  REQUIRE(message("routing: {capacity: 1}\ndispatch: deepep") == "no error");
  REQUIRE(message("dispatch: deepep", keys + "biases: false}, pattern: [{}, {kind: {experts: "
                                             "none}}]") == "no error");
  REQUIRE(message("parallel: {data: 2, expert_tensor: 2}\nbatch: {global: 2}\ndispatch: "
                  "deepep") == "no error");
  REQUIRE_THAT(message("dispatch: mail"),
               Catch::Contains("dispatch: found 'mail'; accepted: alltoall, allgather, deepep"));
  for (std::string const routing : {"random", "{}", "{factor: 1, capacity: 1}"}) {
    REQUIRE_THAT(message("routing: " + routing), Catch::Contains("x.yaml:2:10: routing: found"));
  }
  REQUIRE_THAT(message("routing: {capacity: 1, drop: last}"),
               Catch::Contains("routing.drop: found 'last'; accepted: probabilities, position"));
  REQUIRE_THAT(message("routing: {capacity: 1, scope: batch}"),
               Catch::Contains("routing.scope: found 'batch'; accepted: rank, microbatch"));
  REQUIRE_THAT(message("routing: {factor: 1, pad: false}"),
               Catch::Contains("routing.pad: found an unknown key"));
}

TEST_CASE("experts are chosen by no more tokens than there are", "[plan]") {
  // 8 experts, 2 per token: one is chosen by at most 4 times as many tokens as balanced; the 4 of
  // one of 2 ranks by twice as many.
  REQUIRE(message("routing: {capacity: 4}") == "no error");
  REQUIRE_THAT(message("routing: {capacity: 4.1}"),
               Catch::Contains("x.yaml:2:21: routing.capacity: found '4.1'; accepted: a number up "
                               "to 4, model.experts.count / per_token"));
  std::string const two = "batch: {global: 2}\nparallel: {data: 2, expert: 2}\nrouting: ";
  REQUIRE(message(two + "{factor: 2}") == "no error");
  REQUIRE_THAT(message(two + "{factor: 2.1}"),
               Catch::Contains("routing.factor: found '2.1'; accepted: a number up to 2"));
  REQUIRE_THAT(message("routing: {factor: 0.9}"), Catch::Contains("routing.factor: found '0.9'"));
  REQUIRE_THAT(message("routing: {capacity: 1}", "none"),
               Catch::Contains("accepted: balanced, as the model has no experts"));
}

TEST_CASE("narrow gradients and moments are of bf16 training", "[plan]") {
  REQUIRE_THAT(message("memory: {gradient_dtype: bf16}"),
               Catch::Contains("x.yaml:2:26: memory.gradient_dtype: found 'bf16'; accepted: fp32, "
                               "as model.precision is"));
  REQUIRE_THAT(message("memory: {moments_dtype: bf16}"), Catch::Contains("memory.moments_dtype"));
  REQUIRE_THAT(message("memory: {moments_dtype: fp8}"),
               Catch::Contains("memory.moments_dtype: found 'fp8'; accepted: fp32, bf16"));
}

TEST_CASE("routing and dispatch are written back", "[plan]") {
  auto const written = to_json(read("", "none"));
  REQUIRE(written.at("routing") == "balanced");
  REQUIRE(written.at("dispatch") == "alltoall");
  REQUIRE(written.at("memory").at("gradient_dtype") == "fp32");
  REQUIRE(to_json(read("routing: {capacity: 1.25}")).at("routing").dump() ==
          R"({"capacity":1.25,"pad":true,"drop":"probabilities","scope":"rank"})");
  REQUIRE(
      to_json(read("batch: {global: 2}\nparallel: {data: 2, expert: 2}\nrouting: {factor: 1.5}"))
          .at("routing")
          .dump() == R"({"factor":1.5})");
  REQUIRE(
      to_json(read("routing: {capacity: 1.25, pad: false, drop: position}")).at("routing").dump() ==
      R"({"capacity":1.25,"pad":false,"drop":"position","scope":"rank"})");
  REQUIRE(to_json(read("routing: {capacity: 1, scope: microbatch}")).at("routing").dump() ==
          R"({"capacity":1.0,"pad":true,"drop":"probabilities","scope":"microbatch"})");
  REQUIRE(to_json(read("routing: natural")).at("routing") == "natural");
  REQUIRE(written.at("parallel").at("expert") == 1);
  REQUIRE(written.at("parallel").at("expert_tensor") == 1);
}

}  // namespace
}  // namespace stagecraft::expert_checks_test
