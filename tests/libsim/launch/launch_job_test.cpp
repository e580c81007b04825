#include "libsim/launch/launch_job.hpp"

#include <catch2/catch.hpp>
#include <string>

#include "libsim/import/megatron/megatron_flags.hpp"
#include "libsim/import/shell/shell_words.hpp"
#include "libsim/launch/launch_framework.hpp"

namespace stagecraft::launch_job_test {
namespace {

LaunchJob job_on(int gpus, int node_size) {
  LaunchJob job;
  job.config.parallel.data = gpus;
  job.node_size = node_size;
  return job;
}

}  // namespace

TEST_CASE("a job has as many accelerators on each of its nodes", "[launch]") {
  // 12 on nodes of 8 are 2 x 6, 7 are one node of 7, 13 are 13 nodes of one.
  auto const [gpus, size, nodes, per_node] = GENERATE(table<int, int, int, int>(
      {{64, 8, 8, 8}, {12, 8, 2, 6}, {7, 8, 1, 7}, {13, 8, 13, 1}, {8, 72, 1, 8}, {4, 1, 4, 1}}));
  JobNodes const found = nodes_of(job_on(gpus, size));
  REQUIRE(found.nodes == nodes);
  REQUIRE(found.per_node == per_node);
}

TEST_CASE("a shell reads a quoted word as it was", "[launch]") {
  REQUIRE(shell_word("1e-05") == "1e-05");
  REQUIRE(shell_word("([0]*3+[1]*58)") == "'([0]*3+[1]*58)'");
  REQUIRE(shell_word("it's") == "'it'\\''s'");
  REQUIRE(shell_word("") == "''");
}

TEST_CASE("flags of the layout are those that a search decides", "[launch]") {
  LaunchJob job = job_on(4, 8);
  job.config.parallel.tensor = 2;
  job.config.batch = {.global = 32, .micro = 4};
  std::string const flags = megatron_layout_flags(job.config);
  REQUIRE(flags.starts_with("--tensor-model-parallel-size 2 --pipeline-model-parallel-size 1 "));
  REQUIRE_THAT(flags, Catch::Contains("--micro-batch-size 4 --global-batch-size 32") &&
                          !Catch::Contains("--num-layers") && !Catch::Contains("--lr"));
}

TEST_CASE("a kit has the rotary positions of the model", "[launch]") {
  // Megatron-LM at d98e8a64, arguments.py; megatron-bridge 0.3.1, GPTModelProvider; transformers 5,
  // modeling_rope_utils.py; torchtitan 0.2.2, models/llama3/model/args.py.
  LaunchJob job = job_on(1, 8);
  ModelConfig& model = job.config.model;
  model.positions = Positions::rotary;
  model.rotary_base = 500'000;
  model.norm_epsilon = 1e-6;
  model.rotary_scaling = 8;
  auto const text = [&](char const* framework, char const* name) {
    std::string all;
    for (LaunchFile const& file : framework_named(framework)->files(job)) {
      if (file.name == name) all = file.text;
    }
    return all;
  };
  REQUIRE_THAT(text("megatron-core", "flags.txt"),
               Catch::Contains("--rotary-base 500000 ") &&
                   Catch::Contains("--use-rope-scaling --rope-scaling-factor 8 ") &&
                   Catch::Contains("--norm-epsilon 1e-06 ") && !Catch::Contains("rotary-percent"));
  std::string const rope = R"(rope_parameters={"rope_type": "llama3", "rope_theta": 500000.0, )";
  REQUIRE_THAT(text("accelerate", "train.py"), Catch::Contains(rope + R"("factor": 8.0, )"));
  REQUIRE_THAT(text("torchtitan", "planned_flavor.py"),
               Catch::Contains("rope_scaling_args=RoPEScalingArgs(scaling_factor=8.0)"));
  model.rotary_fraction = 0.5;
  REQUIRE_THAT(text("megatron-core", "flags.txt"), Catch::Contains("--rotary-percent 0.5 "));
  REQUIRE_THAT(text("megatron-core", "megatron_bridge.py"),
               Catch::Contains("rotary_percent=0.5,") && Catch::Contains("rope_scaling=True,") &&
                   Catch::Contains("rope_scaling_factor=8,") &&
                   Catch::Contains("layernorm_epsilon=1e-06,"));
}

}  // namespace stagecraft::launch_job_test
