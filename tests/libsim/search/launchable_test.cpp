#include <catch2/catch.hpp>
#include <sstream>

#include "libsim/import/megatron/megatron_flags.hpp"
#include "libsim/import/megatron/megatron_gaps.hpp"
#include "libsim/import/megatron/megatron_import.hpp"
#include "libsim/launch/launch_framework.hpp"
#include "libsim/plan/fingerprint.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/search/plan_search.hpp"
#include "tests/libsim/search/small_searches.hpp"

namespace stagecraft::launchable_test {
namespace {

/// A search for plans that a version can run, of a model that it has.
SearchRequest launchable_search(int which, MegatronVersion version) {
  SearchRequest request = small_searches()[static_cast<std::size_t>(which)];
  ModelConfig& model = request.base.model;
  model.pattern.clear();
  request.base.memory.output_deallocation = true;
  if (version == MegatronVersion::of_2022) {
    model.vocabulary = 50257;
    model.tied_embeddings = true;
    model.attention = Attention::unfused;
    model.causal_mask = CausalMask::per_microbatch;
    request.base.schedule.p2p = P2p::blocking;
    request.base.parallel.overlap_gradients = false;
    // GPT-2's vocabulary of such a width is most of what a stage holds.
    request.system.accelerator.memory.value += Bytes{std::int64_t{1} << 28};
  }
  request.top = 20;
  char const* const name = version == MegatronVersion::of_2022 ? "megatron-2022" : "megatron-core";
  request.is_wanted = [name](TrainingConfig const& config) {
    return is_launchable(config, *framework_named(name), 8);
  };
  return request;
}

TrainingConfig imported(TrainingConfig const& config, MegatronVersion version) {
  std::vector<ShellWord> words;
  std::istringstream stream{megatron_flags(config, version)};
  for (std::string word; stream >> word;) words.push_back({word, 0, 0});
  MegatronOptions options;
  options.world_size = world_size(config.parallel);
  options.version = version;
  return import_megatron(words, "flags", options).config;
}

}  // namespace

TEST_CASE("the flags of the plans that a version of Megatron-LM can run import as the same plans",
          "[search]") {
  MegatronVersion const version = GENERATE(MegatronVersion::of_2022, MegatronVersion::current);
  int const which = GENERATE(range(0, 5));
  CAPTURE(version, which);
  SearchResult const result = search_plans(launchable_search(which, version));
  REQUIRE(result.best.size() == 20);
  for (FoundPlan const& plan : result.best) {
    REQUIRE(megatron_gaps(plan.config, version).empty());
    CAPTURE(megatron_flags(plan.config, version));
    TrainingConfig const again = imported(plan.config, version);
    REQUIRE(fingerprint(make_plan(as_settled(again))) ==
            fingerprint(make_plan(as_settled(plan.config))));
    REQUIRE(again.training == plan.config.training);
  }
}

TEST_CASE("a search for what can be launched finds no other plan and misses none", "[search]") {
  // The plans of the whole search that have flags are those of the search for them.
  SearchRequest request = launchable_search(0, MegatronVersion::current);
  request.exhaustive = true;
  request.filter.tensor = {1, 2};
  request.filter.pipeline = {2};
  request.filter.micro = {1};
  request.top = 1000000;
  SearchResult const some = search_plans(request);
  request.is_wanted = {};
  SearchResult const all = search_plans(request);
  std::size_t with_flags = 0;
  for (FoundPlan const& plan : all.best) {
    with_flags += megatron_gaps(plan.config, MegatronVersion::current).empty() ? 1 : 0;
  }
  REQUIRE(with_flags == some.best.size());
  REQUIRE(some.best.size() < all.best.size());
}

}  // namespace stagecraft::launchable_test
