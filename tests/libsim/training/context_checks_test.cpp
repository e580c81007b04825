#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "libsim/plan/make_plan.hpp"
#include "libsim/plan/parameter_layout.hpp"
#include "libsim/training/training_config_reader.hpp"
#include "tests/libsim/paper_models.hpp"

namespace stagecraft::context_checks_test {
namespace {

/// The ranks of a rank's group.
std::vector<int> members(TrainingPlan const& plan, GroupId group, int rank) {
  std::vector<int> numbers;
  GroupMembership const membership = plan.groups.membership(group, RankId{rank}).value();
  for (RankId const member : membership.members) numbers.push_back(member.value());
  return numbers;
}

/// Reads a `parallel` section below a model of 4 layers, h = 64, a = 8, g = 4, s = 48.
TrainingConfig read(std::string const& parallel, std::string const& keys) {
  std::string const text =
      "model: {layers: 4, hidden: 64, heads: 8, kv_heads: 4, sequence: 48, vocabulary: 100" + keys +
      "}\nparallel: {" + parallel + "}\nbatch: {global: 8}\n";
  Diagnostics diagnostics;
  auto const root = parse_yaml(text, "x.yaml", diagnostics);
  diagnostics.throw_if_any();
  TrainingConfig config = read_training_config(ConfigNode{*root, "", diagnostics});
  diagnostics.throw_if_any();
  return config;
}

constexpr char const* splittable = ", attention: flash, attention_dropout: 0";

std::string message(std::string const& parallel, std::string const& keys = splittable) {
  try {
    read(parallel, keys);
  } catch (ConfigError const& error) {
    return error.what();
  }
  return "no error";
}

TEST_CASE("sequences are split by a ring unless another method is named", "[plan]") {
  REQUIRE(read("context: 2", splittable).parallel.context_method == ContextMethod::ring);
  REQUIRE(message("context: 2, context_method: all_gather") == "no error");
  REQUIRE(message("context: 2, context_method: ulysses") == "no error");
  REQUIRE(message("context_method: ring") == "no error");
  REQUIRE(message("context: 2, context_method: contiguous_ring") == "no error");
  REQUIRE(message("context: 2, context_method: usp") ==
          "x.yaml:2:40: parallel.context_method: found 'usp'; accepted: ring, all_gather, ulysses, "
          "contiguous_ring, or a map such as {levels: [8, 4], methods: [ulysses, ring]}");
  REQUIRE_THAT(message("context: 0"), Catch::Contains("parallel.context: found '0'"));
}

TEST_CASE("two levels exchange heads within, and send keys round between", "[plan]") {
  auto const method = [](std::string const& levels, std::string const& methods) {
    return "context: 4, context_method: {levels: " + levels + ", methods: " + methods + "}";
  };
  TrainingConfig const config = read(method("[2, 2]", "[ulysses, ring]"), splittable);
  REQUIRE(config.parallel.context_inner == 2);
  REQUIRE(to_json(config)["parallel"]["context_method"].dump() ==
          R"({"levels":[2,2],"methods":["ulysses","ring"]})");
  TrainingPlan const plan = make_plan(as_settled(config));
  REQUIRE(members(plan, plan.roles.context_inner.value(), 1) == std::vector{0, 1});
  REQUIRE(members(plan, plan.roles.context.value(), 1) == std::vector{1, 3});
  REQUIRE(members(plan, plan.roles.gradients, 1) == std::vector{0, 1, 2, 3});
  REQUIRE(place_of(plan.groups, RankId{2}).context == 2);
  REQUIRE_THAT(message(method("[2, 4]", "[ulysses, ring]")),
               Catch::Contains("parallel.context_method.levels: found '[2, 4]'; accepted: numbers "
                               "whose product is parallel.context (4)"));
  REQUIRE_THAT(message(method("[4]", "[ulysses, ring]")),
               Catch::Contains("parallel.context_method.levels: found a list"));
  REQUIRE_THAT(message(method("[2, 2]", "[ring, ulysses]")),
               Catch::Contains("accepted: [ulysses, ring]"));
}

TEST_CASE("sinks are refused where sequences are split", "[plan]") {
  REQUIRE_THAT(message("context: 2", std::string{splittable} + ", sinks: true"),
               Catch::Contains("model.sinks: found 'true'; accepted: false, as parallel.context is "
                               "2; more is not built yet"));
}

TEST_CASE("rings and gathers give each rank two chunks of the rows, and rings have no window",
          "[plan]") {
  REQUIRE(message("context: 16") ==
          "x.yaml:2:21: parallel.context: found '16'; accepted: with ring, a number whose double "
          "divides model.sequence (48)");
  REQUIRE_THAT(message("context: 16, context_method: all_gather"),
               Catch::Contains("accepted: with all_gather, a number whose double divides"));
  REQUIRE_THAT(message("context: 2", std::string{splittable} + ", window: {size: 16}"),
               Catch::Contains("parallel.context_method: found 'ring' (the default); accepted: "
                               "all_gather or ulysses, as layers have a model.window"));
  REQUIRE(message("context: 2, context_method: all_gather",
                  std::string{splittable} + ", window: {size: 16}") == "no error");
}

TEST_CASE("a ring of consecutive rows needs no two chunks, and has no window", "[plan]") {
  REQUIRE(message("context: 16, context_method: contiguous_ring") == "no error");
  REQUIRE(message("context: 5, context_method: contiguous_ring") ==
          "x.yaml:2:21: parallel.context: found '5'; accepted: a divisor of model.sequence (48)");
  REQUIRE_THAT(message("context: 2, context_method: contiguous_ring",
                       std::string{splittable} + ", window: {size: 16}"),
               Catch::Contains("parallel.context_method: found 'contiguous_ring'; accepted: "
                               "all_gather or ulysses, as layers have a model.window"));
  REQUIRE_THAT(message("context: 4, context_method: {levels: [2, 2], methods: [ulysses, "
                       "contiguous_ring]}"),
               Catch::Contains("accepted: [ulysses, ring]"));
  TrainingConfig const config = read("context: 2, context_method: contiguous_ring", splittable);
  REQUIRE(to_json(config)["parallel"]["context_method"] == "contiguous_ring");
}

TEST_CASE("sequences and heads are divided over the ranks that split them", "[plan]") {
  auto const refused = [](std::string const& parallel, std::string const& text) {
    REQUIRE_THAT(message(parallel + ", context_method: ulysses"), Catch::Contains(text));
  };
  refused("context: 5", "parallel.context: found '5'; accepted: a divisor of model.sequence (48)");
  refused("context: 16",
          "accepted: with ulysses, a divisor of model.heads / parallel.tensor (8 / 1)");
  refused("context: 8",
          "accepted: with ulysses, a divisor of model.kv_heads / parallel.tensor (4 / 1)");
  refused("context: 4, tensor: 2, sequence: true",
          "accepted: with ulysses, a divisor of model.kv_heads / parallel.tensor (4 / 2)");
  refused("context: 4, tensor: 8, sequence: true",
          "with parallel.sequence, a number whose product with parallel.tensor (8) divides "
          "model.sequence (48)");
}

TEST_CASE("what split sequences cannot be combined with is refused", "[plan]") {
  std::string const parallel = "context: 2, context_method: ulysses";
  REQUIRE_THAT(message(parallel, ", attention_dropout: 0"),
               Catch::Contains("model.attention: found 'unfused' (the default); accepted: flash"));
  REQUIRE_THAT(message(parallel, ", attention: flash"),
               Catch::Contains("model.attention_dropout: found 'above 0' (the default); accepted: "
                               "0, as parallel.context is 2"));
  REQUIRE(message(parallel, std::string{splittable} +
                                ", experts: {count: 4, per_token: 2, ffn_hidden: 32}") ==
          "no error");
}

TEST_CASE("context ranks stand between tensor and data ranks and share parameters with these",
          "[plan]") {
  // Megatron-LM, order tp-cp-ep-dp-pp: t 2, c 2, d 2, p 2.
  TrainingConfig const config =
      read("tensor: 2, context: 2, data: 2, pipeline: 2, context_method: ulysses", splittable);
  TrainingConfig const whole = [&] {
    TrainingConfig alike = config;
    alike.batch = {.global = 8, .micro = 1};
    return alike;
  }();
  TrainingPlan const plan = make_plan(as_settled(whole));
  REQUIRE(plan.groups.ranks() == 16);
  REQUIRE(members(plan, plan.roles.tensor, 3) == std::vector{2, 3});
  REQUIRE(members(plan, plan.roles.context.value(), 5) == std::vector{5, 7});
  REQUIRE(members(plan, plan.roles.gradients, 5) == std::vector{1, 3, 5, 7});
  REQUIRE(members(plan, plan.roles.model, 5) == std::vector{4, 5, 12, 13});
  REQUIRE(members(plan, plan.roles.job, 5).size() == 16);
  REQUIRE(place_of(plan.groups, RankId{15}) ==
          RankPlace{.tensor = 1, .context = 1, .data = 1, .stage = StageId{1}});
  REQUIRE(place_of(plan.groups, RankId{2}) == RankPlace{.context = 1});
}

TEST_CASE("optimizer state is cut over context and data ranks", "[plan]") {
  TrainingConfig config = read("context: 2, data: 2, context_method: ulysses", splittable);
  config.batch = {.global = 4, .micro = 1};
  config.sharding = sharding_of(true);
  TrainingConfig alone = config;
  alone.parallel = {.data = 4};
  StagePlan const cut = make_plan(as_settled(config)).stages.front();
  StagePlan const by_data = make_plan(as_settled(alone)).stages.front();
  REQUIRE(cut.shards == 4);
  REQUIRE(cut.state_bytes(Category::optimizer) == by_data.state_bytes(Category::optimizer));
}

TEST_CASE("a plan without context parallelism has no axis for it", "[plan]") {
  TrainingConfig config = read("data: 2", splittable);
  config.batch = {.global = 4, .micro = 1};
  TrainingPlan const plan = make_plan(as_settled(config));
  REQUIRE_FALSE(plan.roles.context);
  REQUIRE_FALSE(plan.groups.grid().find("context"));
}

}  // namespace
}  // namespace stagecraft::context_checks_test
