#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "libsim/config/problem.hpp"
#include "libsim/run/config_files.hpp"

namespace stagecraft::override_run_test {
namespace {

std::filesystem::path const file =
    std::filesystem::path{STAGECRAFT_SOURCE_DIR} / "configs" / "paper" / "175b-present.yaml";

std::string message(std::vector<std::string> const& overrides) {
  try {
    load_run_config(file, overrides);
  } catch (ConfigError const& error) {
    return error.what();
  }
  return "no error";
}

TEST_CASE("an override goes on into the file that model or system names", "[run]") {
  RunConfig const config =
      load_run_config(file, {"model.layers=48", "system.accelerator.memory.value=40 GiB"});
  REQUIRE(config.training.model.layers == 48);
  REQUIRE(config.training.model.hidden == 12288);
  REQUIRE(config.system.accelerator.memory.value == Bytes{std::int64_t{40} << 30});
}

TEST_CASE("an override replaces a whole section", "[run]") {
  RunConfig const config = load_run_config(
      file, {"parallel={tensor: 4, pipeline: 12}", "schedule=gpipe", "recompute=none"});
  REQUIRE(config.training.parallel == ParallelLayout{.tensor = 4, .pipeline = 12});
  REQUIRE(config.training.schedule.kind == ScheduleKind::gpipe);
  REQUIRE(config.training.recompute.front() == RecomputePolicy{});
}

TEST_CASE("an override adds a key to a section that is written as a word", "[run]") {
  RunConfig const config =
      load_run_config(file, {"schedule.p2p=overlapped", "recompute.store_microbatches=2"});
  REQUIRE(config.training.schedule.kind == ScheduleKind::interleaved);
  REQUIRE(config.training.schedule.p2p == P2p::overlapped);
  REQUIRE(config.training.recompute.front().granularity == RecomputeGranularity::selective);
  REQUIRE(config.training.recompute.front().store_microbatches.count == 2);
}

TEST_CASE("an override makes a section that the file leaves out", "[run]") {
  REQUIRE(load_run_config(file, {"memory.reserve=0 B"}).training.memory.reserve == Bytes{});
}

TEST_CASE("an overridden constant has no other source than the override", "[run]") {
  std::string const key = "system.calibration.gemm_efficiency";
  for (std::string const& text : {key + "=0.3", key + ".value=0.3"}) {
    CAPTURE(text);
    System const system = load_run_config(file, {text}).system;
    REQUIRE(system.calibration.gemm_efficiency.value == 0.3);
    REQUIRE(system.calibration.gemm_efficiency.source == "given in --set " + text);
    REQUIRE(system.calibration.gemm_efficiency.fitted.empty());
    REQUIRE_FALSE(system.validated);
    // Its neighbours keep theirs.
    REQUIRE(system.calibration.overlap_slowdown.fitted.find("table 4") != std::string::npos);
  }
  System const sourced =
      load_run_config(file, {key + "={value: 0.3, source: my measurement}"}).system;
  REQUIRE(sourced.calibration.gemm_efficiency.source == "my measurement");
  REQUIRE_FALSE(sourced.validated);
  REQUIRE(load_run_config(file, {"parallel.tensor=4"}).system.validated);
  REQUIRE(load_run_config(file, {"system=a100-4hdr"}).system.validated);
  REQUIRE_FALSE(load_run_config(file, {"software.host.kernel=1 us"}).system.validated);
}

TEST_CASE("an override below software changes the default stack of a run that names none",
          "[run]") {
  Software const software = load_run_config(file, {"software.host.kernel=10 us"}).system.software;
  Software const original = load_run_config(file, {}).system.software;
  REQUIRE(software.name == original.name);
  REQUIRE(software.host.kernel.value == Seconds{10e-6});
  REQUIRE(software.host.kernel.source == "given in --set software.host.kernel=10 us");
  REQUIRE(software.replicas == original.replicas);
}

TEST_CASE("of two overrides of one key the last holds", "[run]") {
  REQUIRE(load_run_config(file, {"batch.global=128", "batch.global=32"}).training.batch.global ==
          32);
}

TEST_CASE("an override names another model or system, relative to the run file", "[run]") {
  RunConfig const config =
      load_run_config(file, {"system=../systems/dgx-h100.yaml", "model=../models/gpt-22b.yaml"});
  REQUIRE(config.system.name == "dgx-h100");
  REQUIRE(config.training.model.hidden == 6144);
}

TEST_CASE("a problem of an override names the override as its place", "[run]") {
  REQUIRE(message({"parallel.tensor=5"}) ==
          "--set parallel.tensor=5: parallel.tensor: found '5'; accepted: a divisor of model.heads "
          "(96)");
  REQUIRE(message({"parallel.interleaf=1"}) ==
          "--set parallel.interleaf=1: parallel.interleaf: found an unknown key; accepted: tensor, "
          "pipeline, interleave, data, sequence, expert, expert_tensor, expert_overlap, "
          "shared_expert_overlap, dispatch_multiprocessors, context, "
          "context_method, "
          "overlap_gradients, "
          "gradient_bucket; did you mean "
          "'interleave'?");
  REQUIRE(
      message({"parallel.tensor"}) ==
      "--set parallel.tensor: found 'parallel.tensor'; accepted: KEY=VALUE with a dotted key, such "
      "as parallel.tensor=4");
  REQUIRE(message({"model.layers.deep=3"}) ==
          "--set model.layers.deep=3: model.layers: found '96'; accepted: a map, as the override "
          "sets a key below it");
  REQUIRE(message({"batch={global: 64"})
              .find("--set batch={global: 64: batch: found a YAML syntax error") == 0);
  REQUIRE(message({"recompute="}) ==
          "--set recompute=: recompute: missing; accepted: a value after '='");
}

TEST_CASE("what is wrong in a file for an override alone is placed at the override", "[run]") {
  // 96 heads do not divide 12289, and the file says 96 of them for 12288.
  std::string const text = message({"batch.micro=1", "model.hidden=12289"});
  REQUIRE_THAT(text,
               Catch::StartsWith("--set model.hidden=12289: model.heads: found '96'; accepted: "
                                 "a divisor of model.hidden"));
  REQUIRE_THAT(text, Catch::Contains("; the value found is that of ") &&
                         Catch::Contains("gpt3-175b.yaml:4:8"));
}

TEST_CASE("an override that names a file that is not there says so at its place", "[run]") {
  std::string const text = message({"system=../systems/none.yaml"});
  REQUIRE(text.find("--set system=../systems/none.yaml: system: found '") == 0);
  REQUIRE(text.find("which cannot be opened (No such file or directory; looked for in /") !=
          std::string::npos);
  REQUIRE(text.find('\n') == std::string::npos);
}

}  // namespace
}  // namespace stagecraft::override_run_test
