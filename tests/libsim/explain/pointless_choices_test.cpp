#include "libsim/explain/pointless_choices.hpp"

#include <catch2/catch.hpp>

#include "libsim/explain/single_changes.hpp"
#include "libsim/run/config_files.hpp"

namespace stagecraft::pointless_choices_test {
namespace {

std::string const paper = STAGECRAFT_SOURCE_DIR "/configs/paper/";

std::vector<std::string> warnings_of(std::string const& name,
                                     std::vector<std::string> const& overrides) {
  RunConfig const run = load_run_config(paper + name + ".yaml", overrides);
  return pointless_choices(run, figures_of(run),
                           simulate_changes(run, single_changes(run.training, run.system), 2));
}

/// The warnings that begin so.
int count(std::vector<std::string> const& warnings, std::string const& begin) {
  int found = 0;
  for (std::string const& warning : warnings) found += warning.rfind(begin, 0) == 0 ? 1 : 0;
  return found;
}

}  // namespace

TEST_CASE("the paper's present work makes no choice that does not pay", "[long]") {
  for (std::string const name : {"22b-present", "175b-present", "530b-present", "1t-present"}) {
    INFO(name);
    REQUIRE(warnings_of(name, {}).empty());
  }
}

TEST_CASE("selective recompute of core attention with flash attention saves almost nothing") {
  auto const warnings = warnings_of("175b-present", {"model.attention=flash"});
  REQUIRE(warnings.size() == 1);
  REQUIRE(count(warnings, "Selective recompute (core_attention) saves only ") == 1);
  REQUIRE(warnings[0].find("of the peak) and costs 0.") != std::string::npos);
}

TEST_CASE("recompute that does not pay is named where it is given stage by stage") {
  auto const of_policies = [](std::string const& list) {
    return warnings_of("175b-present",
                       {"model.attention=flash", "recompute={per_stage: [" + list + "]}"});
  };
  std::string const four = "selective, selective, selective, selective";
  auto const everywhere = of_policies(four + ", " + four);
  REQUIRE(everywhere == warnings_of("175b-present", {"model.attention=flash"}));
  auto const on_half = of_policies(four + ", none, none, none, none");
  REQUIRE(on_half.size() == 1);
  REQUIRE(count(on_half, "Selective recompute (core_attention) on stages 0-3 saves ") == 1);
  // Full recompute on stage 0 makes everyone wait; what the others do is not to blame.
  auto const beside_full = of_policies("full, selective, " + four + ", selective, none");
  REQUIRE(count(beside_full,
                "Full recompute on stage 0 is not needed: with no recompute on stage "
                "0 every stage fits") == 1);
}

TEST_CASE("what has no effect is named: sharding over one replica") {
  auto const warnings = warnings_of("22b-present", {"memory.distributed_optimizer=true"});
  REQUIRE(warnings == std::vector<std::string>{"Distributed optimizer has no effect here."});
  auto const sharded = warnings_of(
      "22b-present", {"memory.distributed_optimizer=true", "parallel.data=2", "batch.global=8"});
  REQUIRE(count(sharded, "Distributed optimizer") == 0);
  // With half the optimizer state there is room for what was recomputed.
  REQUIRE(count(sharded, "Selective recompute (core_attention) is not needed") == 1);
}

TEST_CASE("full recompute is not needed where less of it fits, and is needed where it does not") {
  // PyTorch's allocator runs out with selective recompute; an arena reserves what is counted.
  REQUIRE(warnings_of("22b-full", {}).empty());
  auto const unneeded = warnings_of("22b-full", {"memory.allocator=arena"});
  REQUIRE(unneeded.size() == 1);
  REQUIRE(count(unneeded,
                "Full recompute is not needed: with selective recompute every stage "
                "fits") == 1);
  REQUIRE(warnings_of("530b-full", {}).empty());  // selective recompute lacks 31 GiB
  // Half the model: even nothing recomputed fits, and is fastest.
  auto const nothing = warnings_of("22b-full", {"model.layers=24"});
  REQUIRE(count(nothing, "Full recompute is not needed: with no recompute every stage fits") == 1);
}

TEST_CASE("kept outputs cost memory and gain nothing") {
  auto const warnings = warnings_of("530b-present", {"memory.output_deallocation=false"});
  REQUIRE(warnings.size() == 1);
  REQUIRE(warnings[0].rfind("No output deallocation costs ", 0) == 0);
  REQUIRE(warnings[0].find("gains nothing") != std::string::npos);
}

TEST_CASE("a reserve below the default is named where the run fits only by it") {
  // 56.83 GiB of 58.5: 1.67 GiB are left, the default reserve is 2 GiB.
  std::string const memory = "system.accelerator.memory.value=58.5 GiB";
  auto const warnings = warnings_of("22b-present", {memory, "memory.reserve=1 GiB"});
  REQUIRE(warnings.size() == 1);
  REQUIRE(count(warnings, "The run fits only because memory.reserve is 1.00 GiB") == 1);
  REQUIRE(warnings_of("22b-present", {"memory.reserve=1 GiB"}).empty());
}

}  // namespace stagecraft::pointless_choices_test
