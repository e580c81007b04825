#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "libsim/plan/fingerprint.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/plan/plan_outline.hpp"
#include "libsim/plan/plan_programs.hpp"
#include "libsim/plan/received_rows.hpp"
#include "libsim/training/training_config_reader.hpp"

/// Routing whose counts a file or a factor gives.
namespace stagecraft::routing_test {
namespace {

/// A file that exists as long as the object.
class CountsText {
 public:
  explicit CountsText(std::string const& text)
      : path_{std::filesystem::temp_directory_path() /
              ("counts-" + std::to_string(reinterpret_cast<std::uintptr_t>(this)) + ".csv")} {
    std::ofstream{path_} << text;
  }
  ~CountsText() { std::filesystem::remove(path_); }
  CountsText(CountsText const&) = delete;
  CountsText& operator=(CountsText const&) = delete;
  CountsText(CountsText&&) = delete;
  CountsText& operator=(CountsText&&) = delete;

  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

/// Two layers of 4 experts, of which each of the 8 tokens of a microbatch uses 2; 4 microbatches.
TrainingConfig read(std::string const& routing, std::string const& parallel = "{}") {
  std::string const text =
      "model: {layers: 2, hidden: 64, heads: 8, sequence: 8, vocabulary: 100, experts: {count: 4, "
      "per_token: 2, ffn_hidden: 96}}\nbatch: {global: 4}\nparallel: " +
      parallel + "\nrouting: " + routing + "\n";
  Diagnostics diagnostics;
  auto const root = parse_yaml(text, "x.yaml", diagnostics);
  diagnostics.throw_if_any();
  TrainingConfig config = read_training_config(ConfigNode{*root, "", diagnostics});
  diagnostics.throw_if_any();
  return config;
}

/// The message about a file, without its path.
std::string message(std::string const& counts) {
  CountsText const file{counts};
  try {
    read("{file: " + file.path() + "}");
  } catch (ConfigError const& error) {
    std::string text = error.what();
    for (auto at = text.find(file.path()); at != std::string::npos; at = text.find(file.path())) {
      text.replace(at, file.path().size(), "counts.csv");
    }
    return text;
  }
  return "no error";
}

std::string const header = "layer,microbatch,expert,rows\n";
std::string const layer_0 = "0,,0,8\n0,,1,0\n0,,2,5\n0,,3,3\n";
std::string const layer_1 = "1,,0,4\n1,,1,4\n1,,2,4\n1,,3,4\n";

TEST_CASE("mistakes in a file of counts are reported with their line", "[plan]") {
  REQUIRE(message(header + layer_0 + layer_1) == "no error");
  REQUIRE(message(header + layer_0 + "1,,0,4\n1,,1,4\n1,,2,4\n") ==
          "counts.csv:8:1: routing.file: found 3 experts of layer 1; accepted: each of 4 once "
          "(model.experts.count)");
  REQUIRE(message(header + layer_0 + layer_1 + "1,,4,0\n") ==
          "counts.csv:10:1: routing.file: found 5 experts of layer 1; accepted: each of 4 once "
          "(model.experts.count)");
  REQUIRE(message(header + layer_0 + "1,,0,4\n1,,1,4\n1,,2,4\n1,,3,5\n") ==
          "counts.csv:9:1: routing.file: found a sum of 17 rows of layer 1; accepted: 16, as "
          "model.sequence x batch.micro x model.experts.per_token is");
  REQUIRE(
      message(header + layer_0 + "1,,0,9\n1,,1,7\n1,,2,0\n1,,3,0\n") ==
      "counts.csv:9:1: routing.file: found 9 rows of an expert of layer 1; accepted: at most 8, "
      "the tokens of a microbatch");
  REQUIRE(message(header + layer_0 + layer_1 + "2,,0,16\n") ==
          "counts.csv:10:1: routing.file: found layer 2; accepted: a layer with experts, of 2");
  REQUIRE(
      message(header + layer_0 + layer_1 + "1,4,0,4\n") ==
      "counts.csv:10:1: routing.file: found microbatch 4; accepted: one from 0 to 3, or none for "
      "all");
  REQUIRE(message(header + layer_0) ==
          "counts.csv: routing.file: found no rows of layer 1 in microbatch 0; accepted: rows of "
          "each layer with experts, for each microbatch or, with that empty, for all");
  REQUIRE(
      message(header + layer_0 + layer_1 + "1,,3,4\n") ==
      "counts.csv:10:4: routing.file: found '3'; accepted: each expert of a layer and microbatch "
      "once");
  REQUIRE_THAT(
      message(header + layer_0 + "1,,0,many\n"),
      Catch::Contains("counts.csv:6:6: routing.file: found 'many'; accepted: a whole number "
                      "from 0 to"));
  REQUIRE_THAT(message("layer,expert,rows\n0,0,8\n"),
               Catch::Contains("counts.csv:1:1: routing.file: found no column 'microbatch'"));
  REQUIRE_THAT(message("layer,microbatch,expert,rows,why\n0,,0,8,x\n"),
               Catch::Contains("counts.csv:1:30: routing.file: found 'why'"));
}

TEST_CASE("a file of counts is named relative to the file that names it", "[plan]") {
  REQUIRE_THROWS_WITH(read("{file: nowhere.csv}"), Catch::Contains("nowhere.csv"));
}

std::int64_t rows_of(TrainingConfig const& config, int rank, std::int64_t layer, std::int64_t k) {
  TrainingPlan const plan = make_outline(config);
  return ReceivedRows{plan}.of(rank, config.model, layer, MicrobatchId{static_cast<int>(k)});
}

TEST_CASE("a rank computes the rows of its experts from all tokens of its group", "[plan]") {
  CountsText const file{header + layer_0 + layer_1 + "1,1,0,8\n1,1,1,8\n1,1,2,0\n1,1,3,0\n"};
  TrainingConfig const config = read("{file: " + file.path() + "}", "{data: 2, expert: 2}");
  // Replica 0 has microbatches 0 and 1, replica 1 has 2 and 3.
  REQUIRE(rows_of(config, 0, 0, 0) == 2 * 8);
  REQUIRE(rows_of(config, 1, 0, 1) == 2 * 8);
  REQUIRE(rows_of(config, 0, 1, 0) == 2 * 8);
  REQUIRE(rows_of(config, 0, 1, 1) == 16 + 8);
  REQUIRE(rows_of(config, 1, 1, 1) == 0 + 8);
}

TEST_CASE("ranks that share the weights of experts compute what all of them receive", "[plan]") {
  CountsText const file{header + layer_0 + layer_1 + "1,1,0,8\n1,1,1,8\n1,1,2,0\n1,1,3,0\n"};
  TrainingConfig const config =
      read("{file: " + file.path() + "}", "{data: 2, expert: 1, expert_tensor: 2}");
  TrainingPlan const plan = make_outline(config);
  ReceivedRows const rows{plan};
  for (int const rank : {0, 1}) {
    // Each receives the 16 choices of its own replica. The second microbatches are 1 and 3.
    ExpertRows const found = rows.most(std::vector{rank}, config.model, 1, MicrobatchId{1});
    REQUIRE(found.received == 16);
    REQUIRE(found.computed == 32);
    REQUIRE(*found.of_experts == GroupRows{8 + 4, 8 + 4, 0 + 4, 0 + 4});
  }
}

TEST_CASE("products are of the rows of the rank with the largest load, buffers of the most rows",
          "[plan]") {
  // Of two replicas, rank 0 has 4 rows of each of its experts: a load of 2 x (4 + 256). Of the
  // other two, rank 2 has 16 of one, and a smaller load: 16 + 256.
  CountsText const file{header + layer_0 +
                        "1,0,0,2\n1,0,1,2\n1,0,2,8\n1,0,3,4\n"
                        "1,1,0,2\n1,1,1,2\n1,1,2,8\n1,1,3,4\n"
                        "1,,0,8\n1,,1,0\n1,,2,4\n1,,3,4\n"};
  TrainingConfig const config = read("{file: " + file.path() + "}", "{data: 4, expert: 2}");
  TrainingPlan const plan = make_plan(as_settled(config));
  std::vector const ranks{0, 2};
  ExpertRows const found = ReceivedRows{plan}.most(ranks, config.model, 1, MicrobatchId{0});
  REQUIRE(found.received == 16);
  REQUIRE(found.computed == 16);
  REQUIRE(found.of_experts);
  REQUIRE(*found.of_experts == GroupRows{4, 4});
  // Products of the second layer: 8 rows of 96 by 64 elements, in tensors of 16 rows.
  int products = 0;
  Programs const programs = programs_of_ranks(plan, ranks);
  for (BlockProgram const& block : programs.blocks) {
    for (Op const& op : block.forward) {
      if (op.kind != OpKind::grouped_gemm) continue;
      auto const& gemm = std::get<GemmAttributes>(op.attributes);
      if (gemm.rows == nullptr || *gemm.rows != GroupRows{4, 4}) continue;
      ++products;
      REQUIRE(gemm.shape.m == 4);
      REQUIRE(op.flops == 2 * 8 * 96 * 64);
      REQUIRE(block.tensor(op.writes[0]).shape[0] == 16);
    }
  }
  REQUIRE(products == 2);
}

TEST_CASE("a plan is for the ranks that the others wait for at the end", "[plan]") {
  // Four replicas of one microbatch each; the first two exchange rows, and so do the last two.
  auto const last_ranks = [&](std::string const& hot) {
    CountsText const file{header + layer_0 + "1,,0,4\n1,,1,4\n1,,2,4\n1,,3,4\n1," + hot +
                          ",0,8\n1," + hot + ",1,8\n1," + hot + ",2,0\n1," + hot + ",3,0\n"};
    TrainingPlan const plan =
        make_outline(read("{file: " + file.path() + "}", "{data: 4, expert: 2}"));
    return ReceivedRows{plan}.last_ranks();
  };
  REQUIRE(last_ranks("1") == std::vector{0, 1});
  REQUIRE(last_ranks("3") == std::vector{2, 3});
}

TEST_CASE("replicas whose choices are counted together wait for each other within passes",
          "[plan]") {
  CountsText const file{header + layer_0 + layer_1};
  TrainingConfig config = read("{file: " + file.path() + "}", "{data: 4, expert: 2}");
  REQUIRE(ReceivedRows{make_outline(config)}.last_ranks().size() == 2);
  config.model.experts->router.loss = RouterLoss::global_auxiliary;
  config.model.experts->router.loss_coefficient = 0.1;
  REQUIRE(ReceivedRows{make_outline(config)}.last_ranks() == std::vector{0, 1, 2, 3});
}

TEST_CASE("of sets with as many rows, the others wait for the one that uses more experts",
          "[plan]") {
  // Each rank of replicas 0 and 1 has 16 rows of one expert, each of 2 and 3 has 8 of both.
  CountsText const file{header + layer_0 +
                        "1,0,0,8\n1,0,1,0\n1,0,2,8\n1,0,3,0\n"
                        "1,1,0,8\n1,1,1,0\n1,1,2,8\n1,1,3,0\n"
                        "1,,0,4\n1,,1,4\n1,,2,4\n1,,3,4\n"};
  TrainingPlan const plan =
      make_outline(read("{file: " + file.path() + "}", "{data: 4, expert: 2}"));
  REQUIRE(ReceivedRows{plan}.last_ranks() == std::vector{2, 3});
}

TEST_CASE("with a factor the first rank of each expert group is the hottest", "[plan]") {
  // 8 tokens x 2 choices x 4 replicas / 2 ranks of a group of 2 replicas.
  TrainingConfig const config = read("{factor: 1.5}", "{data: 4, expert: 2}");
  for (int const rank : {0, 2}) REQUIRE(rows_of(config, rank, 0, 0) == 24);
  for (int const rank : {1, 3}) REQUIRE(rows_of(config, rank, 0, 0) == 8);
  auto const distinct = [&] {
    TrainingPlan const plan = make_outline(config);
    return ReceivedRows{plan}.distinct_ranks();
  }();
  REQUIRE(distinct == std::vector<std::pair<int, int>>{{0, 2}, {1, 2}});
}

TEST_CASE("layers of multi-token prediction route as many choices as others, as evenly as they can",
          "[plan]") {
  // GLM-4.5's experts and its module, zai-org/GLM-4.5, config.json: 160 experts, 8 per token,
  // num_nextn_predict_layers 1. The 128 x 8 choices of a rank's tokens are 6.4 per expert.
  std::string const text =
      "model: {layers: 2, hidden: 64, heads: 8, sequence: 128, vocabulary: 100, positions: rotary, "
      "predicted_tokens: 1, experts: {count: 160, per_token: 8, ffn_hidden: 32}}\n"
      "batch: {global: 2}\nparallel: {data: 2, expert: 2}\n";
  Diagnostics diagnostics;
  auto const root = parse_yaml(text, "x.yaml", diagnostics);
  TrainingConfig const config = read_training_config(ConfigNode{*root, "", diagnostics});
  diagnostics.throw_if_any();
  REQUIRE(config.routing.factor == 1);
  TrainingPlan const plan = make_plan(as_settled(config));
  BlockProgram const& head = plan.programs.blocks.back();
  REQUIRE(head.kind == BlockProgram::Kind::head);
  int products = 0;
  for (Op const& op : head.ops(Pass::forward)) {
    if (op.kind != OpKind::grouped_gemm) continue;
    ++products;
    // The hottest rank of two has 7 rows of each replica for each of its 80 experts; 2 FLOPs per
    // row and element of the weights, 64 x 32.
    REQUIRE(op.flops == 2 * (80 * 7 * 2) * 64 * 32);
  }
  REQUIRE(products == 2);
}

TEST_CASE("a router that chooses freely may send every token to a rank", "[plan]") {
  // 2 of a token's choices may be of the 2 experts of a rank, for the 8 tokens of 2 replicas.
  REQUIRE(rows_of(read("natural", "{data: 2, expert: 2}"), 0, 0, 0) == 2 * 8 * 2);
  // One, if it has one expert.
  REQUIRE(rows_of(read("natural", "{data: 4, expert: 4}"), 3, 1, 0) == 4 * 8 * 1);
  // 8 x 2 / 4 rows of each of its two experts from each of two replicas.
  REQUIRE(rows_of(read("{capacity: 1, pad: false}", "{data: 2, expert: 2}"), 1, 1, 0) == 2 * 2 * 4);
}

TEST_CASE("plans with other counts have other fingerprints", "[plan]") {
  CountsText const one{header + layer_0 + layer_1};
  CountsText const same{header + layer_1 + layer_0};
  CountsText const other{header + "0,,0,0\n0,,1,8\n0,,2,5\n0,,3,3\n" + layer_1};
  auto const print = [](CountsText const& file) {
    return fingerprint(make_plan(as_settled(read("{file: " + file.path() + "}"))));
  };
  REQUIRE(print(one) == print(same));
  REQUIRE(print(one) != print(other));
}

}  // namespace
}  // namespace stagecraft::routing_test
