#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "libsim/engine/prediction.hpp"
#include "libsim/run/config_files.hpp"
#include "libsim/search/plan_search.hpp"
#include "tests/long_tests.hpp"

namespace stagecraft::paper_search_test {

TEST_CASE(
    "for the paper's models the plan found is no slower than the paper's, and its strategies "
    "come in the paper's order",
    "[search][long]") {
  // 22B has no pipeline; 175B is searched as the larger two are.
  std::vector<std::string> const models = {"22b", "175b", "530b", "1t"};
  std::string const name =
      models[GENERATE(range(std::size_t{0}, std::size_t{smaller_long_tests ? 2 : 4}))];
  CAPTURE(name);
  std::filesystem::path const folder =
      std::filesystem::path{STAGECRAFT_SOURCE_DIR} / "configs/paper";
  RunConfig const full = load_run_config(folder / (name + "-full.yaml"), {});
  RunConfig const present = load_run_config(folder / (name + "-present.yaml"), {});
  SimTime const seconds_full = predict(as_settled(full.training), full.system).iteration;
  SimTime const seconds_present = predict(as_settled(present.training), present.system).iteration;
  REQUIRE(seconds_present < seconds_full);

  SearchRequest request;
  request.base = present.training;
  request.system = present.system;
  request.gpus = world_size(present.training.parallel);
  request.global_batch = present.training.batch.global;
  request.top = 1;
  SearchResult const result = search_plans(request);
  REQUIRE(result.best.size() == 1);
  REQUIRE(result.best.front().simulation.iteration <= seconds_present);
  REQUIRE(result.simulated < result.considered / 10);
}

}  // namespace stagecraft::paper_search_test
