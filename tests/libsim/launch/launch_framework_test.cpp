#include "libsim/launch/launch_framework.hpp"

#include <catch2/catch.hpp>
#include <utility>

namespace stagecraft::launch_framework_test {

TEST_CASE("a software stack names the framework that starts its runs", "[launch]") {
  auto const [stack, framework] =
      GENERATE(table<char const*, char const*>({{"megatron-core", "megatron-core"},
                                                {"megatron-core-local", "megatron-core"},
                                                {"megatron-2021", "megatron-2022"},
                                                {"megatron-deepspeed-2022", "megatron-2022"},
                                                {"torchtitan-2025", "torchtitan"}}));
  REQUIRE(framework_of_stack(stack)->name == framework);
  REQUIRE(framework_of_stack("nanotron") == nullptr);
}

TEST_CASE("what a framework's model lacks keeps no plan from being started, what a plan needs does",
          "[launch]") {
  LaunchFramework const& framework = *framework_named("megatron-2022");
  TrainingConfig config;
  config.model.norm = Norm::rmsnorm;  // Megatron-LM of 2022 has LayerNorm
  REQUIRE_FALSE(framework.gaps(config).empty());
  REQUIRE(is_launchable(config, framework));
  config.parallel.context = 2;
  REQUIRE_FALSE(is_launchable(config, framework));
}

}  // namespace stagecraft::launch_framework_test
