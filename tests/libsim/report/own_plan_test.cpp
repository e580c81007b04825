#include "libsim/report/paper/own_plan.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "libsim/plan/fingerprint.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/run/config_files.hpp"
#include "libsim/trace/trace.hpp"
#include "libsim/trace/trace_writer.hpp"
#include "tests/libsim/recorded.hpp"

namespace stagecraft::own_plan_test {
namespace {

/// Writes a trace, checks it, removes it.
void require_own_plan_of(Trace const& trace) {
  auto const file = std::filesystem::temp_directory_path() /
                    ("stagecraft-own-plan-" + std::to_string(getpid()) + ".h5");
  write_trace(file, trace);
  try {
    require_own_plan(TraceReader{file});
  } catch (...) {
    std::filesystem::remove(file);
    throw;
  }
  std::filesystem::remove(file);
}

}  // namespace

TEST_CASE("a trace whose configuration is not that of its plan is refused", "[report]") {
  std::filesystem::path const folder =
      std::filesystem::path{STAGECRAFT_SOURCE_DIR} / "configs" / "paper";
  RunConfig const run = load_run_config(folder / "22b-present.yaml", {});
  RunConfig const other = load_run_config(folder / "22b-full.yaml", {});
  RecordOptions options;
  options.config = to_yaml(run);
  Trace trace = recorded(make_plan(as_settled(run.training)), run.system, options);
  REQUIRE_NOTHROW(require_own_plan_of(trace));
  trace.meta.config = to_yaml(other);
  std::string const made = fingerprint(make_plan(as_settled(other.training)));
  REQUIRE_THROWS_WITH(require_own_plan_of(trace),
                      Catch::Contains("but its configuration makes plan " + made));
  trace.meta.config = "model: [";
  REQUIRE_THROWS_AS(require_own_plan_of(trace), TraceFileError);
}

}  // namespace stagecraft::own_plan_test
