#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <string>

#include "libsim/config/problem.hpp"
#include "libsim/hardware/system_reader.hpp"
#include "libsim/run/config_files.hpp"

namespace stagecraft::run_error_test {
namespace {

std::filesystem::path const paper =
    std::filesystem::path{STAGECRAFT_SOURCE_DIR} / "configs" / "paper";

/// The messages of a text that stands where the runs of the paper do, so that its references hold.
std::string message(std::string const& text) {
  try {
    parse_run_config(text, paper / "x.yaml", {});
  } catch (ConfigError const& error) {
    std::string what = error.what();
    std::string const prefix = (paper / "x.yaml").string();
    for (std::size_t at = what.find(prefix); at != std::string::npos; at = what.find(prefix)) {
      what.replace(at, prefix.size(), "x.yaml");
    }
    return what;
  }
  return "no error";
}

std::string const head = "model: ../models/gpt3-175b.yaml\nsystem: ../systems/selene-a100.yaml\n";

TEST_CASE("a run without model and system is told both", "[run]") {
  REQUIRE(message("batch: {global: 4}") ==
          "x.yaml:1:1: model: missing; accepted: a map, or the name of a YAML file\n"
          "x.yaml:1:1: system: missing; accepted: a map, or the name of a YAML file");
}

TEST_CASE("all problems of a run come at once, each at its own place", "[run]") {
  REQUIRE(
      message(head + "parallel: {tensor: 5, pipeline: 8, interleaf: 3}\n"
                     "batch:\n"
                     "  global: 6.5\n"
                     "schedule: 1f2b\n"
                     "memory: {reserve: 2}\n") ==
      "x.yaml:3:36: parallel.interleaf: found an unknown key; accepted: tensor, pipeline, "
      "interleave, "
      "data, sequence, expert, expert_tensor, expert_overlap, shared_expert_overlap, "
      "dispatch_multiprocessors, context, context_method, "
      "overlap_gradients, "
      "gradient_bucket; did you mean "
      "'interleave'?\n"
      "x.yaml:5:11: batch.global: found '6.5'; accepted: a whole number from 1 to 1099511627776\n"
      "x.yaml:6:11: schedule: found '1f2b'; accepted: gpipe, 1f1b, interleaved, zb_h1, zb_h2, "
      "zb_auto, interleaved_zb, zbv, v_half, v_min, v_auto, 1f1b_v, dualpipev, dualpipe, "
      "group_interleaved, order, searched; did you mean '1f1b'?\n"
      "x.yaml:7:19: memory.reserve: found '2'; accepted: a size with its unit, such as '80 GiB' "
      "(B, "
      "KB, MB, GB, TB, KiB, MiB, GiB, TiB)\n"
      "x.yaml:3:20: parallel.tensor: found '5'; accepted: a divisor of model.heads (96)");
}

TEST_CASE("a tensor size that does not divide the heads reads as DESIGN has it", "[run]") {
  auto const system = to_json(load_system_file(paper / "../systems/selene-a100.yaml"));
  std::string const text =
      "# A run\n# with everything\n# in place.\n"
      "model:\n  layers: 96\n  hidden: 12288\n  heads: 96\n  sequence: 2048\n  vocabulary: 51200\n"
      "system: " +
      system.dump() +
      "\n"
      "batch: {global: 64}\nrecompute: selective\n"
      "parallel:\n  tensor: 5\n";
  REQUIRE_THROWS_WITH(
      parse_run_config(text, "configs/x.yaml", {}),
      "configs/x.yaml:14:11: parallel.tensor: found '5'; accepted: a divisor of model.heads (96)");
}

TEST_CASE("a problem inside a named file stands in that file, under the run's key", "[run]") {
  std::string const text = message(
      "model: {layers: 4, hidden: 32, heads: 5, sequence: 16, vocabulary: 9}\n"
      "system: ../paper/22b-full.yaml\n");
  REQUIRE(
      text.find("x.yaml:1:39: model.heads: found '5'; accepted: a divisor of model.hidden (32), or "
                "model.head_dim given") != std::string::npos);
  REQUIRE(text.find("22b-full.yaml:2:1: system: found a run file (stagecraft simulate takes it); "
                    "accepted: a system file") != std::string::npos);
}

TEST_CASE("a precision that the system has no peak for is refused", "[run]") {
  REQUIRE(
      message(
          "model: {layers: 4, hidden: 32, heads: 4, sequence: 16, vocabulary: 9, precision: fp64}\n"
          "system: ../systems/selene-a100.yaml\nbatch: {global: 1}\n") == "no error");
  auto const system = to_json(load_system_file(paper / "../systems/selene-a100.yaml"));
  auto without = system;
  without["accelerator"]["peak"]["value"].erase("fp16");
  REQUIRE(
      message("model: {layers: 4, hidden: 32, heads: 4, sequence: 16, vocabulary: 9}\nsystem: " +
              without.dump() + "\nbatch: {global: 1}\n") ==
      "x.yaml:1:8: model.precision: found 'fp16' (the default); accepted: a precision of "
      "system.accelerator.peak (bf16, fp32, fp64)");
}

TEST_CASE("TF32 is refused where there is none", "[run]") {
  auto const run = [](std::string const& precision, std::string const& system) {
    return "model: {layers: 4, hidden: 32, heads: 4, sequence: 16, vocabulary: 9, precision: " +
           precision + "}\nsystem: ../systems/" + system +
           ".yaml\nbatch: {global: 1}\ntf32: true\n";
  };
  REQUIRE(message(run("fp32", "selene-a100")) == "no error");
  REQUIRE(message(run("bf16", "selene-a100")) ==
          "x.yaml:4:7: tf32: found 'true'; accepted: false, as model.precision is bf16 and not "
          "fp32");
  REQUIRE(message(run("fp32", "v100-dgx2")) ==
          "x.yaml:4:7: tf32: found 'true'; accepted: false, as system.accelerator.peak has no "
          "tf32: NVIDIA V100-SXM3-32GB has no products in TF32");
}

TEST_CASE("DeepEP's kernels need an even number of the accelerator's multiprocessors", "[run]") {
  auto const run = [](int occupied) {
    return "model: ../models/gpt3-175b.yaml\nsystem: ../systems/dgx-h100.yaml\nbatch: {global: "
           "8}\nparallel: {tensor: 8, pipeline: 8, dispatch_multiprocessors: " +
           std::to_string(occupied) + "}\ndispatch: deepep\n";
  };
  std::string const accepted =
      "; accepted: an even number below the 132 multiprocessors of system.accelerator, with "
      "dispatch deepep";
  REQUIRE(message(run(24)) == "no error");
  for (int const occupied : {21, 132}) {
    std::string const found = "'" + std::to_string(occupied) + "'";
    REQUIRE(message(run(occupied)) ==
            "x.yaml:4:62: parallel.dispatch_multiprocessors: found " + found + accepted);
  }
}

TEST_CASE("flash attention needs a device that has its kernels", "[run]") {
  auto const on = [](std::string const& system, std::string const& precision) {
    return "model: {layers: 4, hidden: 32, heads: 4, sequence: 16, vocabulary: 9, attention: "
           "flash, "
           "precision: " +
           precision + "}\nsystem: " + system + "\nbatch: {global: 1}\n";
  };
  REQUIRE(
      message(on("v100-dgx2", "fp16")) ==
      "x.yaml:1:82: model.attention: found 'flash', which has no kernels before compute capability "
      "8.0; accepted: unfused, or a system whose accelerator.compute_capability is 8 or more");
  REQUIRE(message(on("selene-a100", "fp16")) == "no error");
  REQUIRE(message(on("mi300x", "fp16")) == "no error");
  auto const warnings = parse_run_config(on("selene-a100", "fp32"), "x.yaml", {}).warnings;
  REQUIRE(warnings.size() == 1);
  // PyTorch's memory-efficient kernel has fp32, and saves the output and the sums of its rows
  // (aten/src/ATen/native/transformers/cuda/attention.cu): the same bytes at other times.
  REQUIRE_THAT(warnings.front(),
               Catch::Contains("FlashAttention has kernels for fp16 and bf16 alone; in fp32 bytes "
                               "are those of PyTorch's memory-efficient kernel"));
}

TEST_CASE("a run that outlasts the simulator's clock is refused", "[run]") {
  auto system = to_json(load_system_file(paper / "../systems/selene-a100.yaml"));
  system["network"]["bandwidth"]["value"] = "1 B/s";
  REQUIRE(message("model: ../models/gpt3-175b.yaml\nbatch: {global: 64}\nsystem: " + system.dump() +
                  "\n") ==
          "x.yaml:3:9: system: found a system on which an iteration could take more than 100 days; "
          "accepted: faster constants, or a smaller model or batch");
  REQUIRE(message("model: ../models/gpt3-175b.yaml\nbatch: {global: 1M}\nsystem: selene-a100\n") ==
          "x.yaml:2:17: batch.global: found '1M', with which an iteration could take more than 100 "
          "days; accepted: fewer sequences, or a faster system");
}

TEST_CASE("a file that is missing, a folder or too large is refused by name", "[run]") {
  REQUIRE_THROWS_WITH(
      load_run_config("/no/such/run.yaml", {}),
      "/no/such/run.yaml: found '/no/such/run.yaml', which cannot be opened (No such file or "
      "directory); accepted: a readable YAML file");
  REQUIRE_THROWS_WITH(load_run_config("/tmp", {}),
                      "/tmp: found '/tmp', a folder; accepted: a YAML file");
  REQUIRE(
      message("model: /tmp\nsystem: /dev/zero\nbatch: {global: 1}\n") ==
      "x.yaml:1:8: model: found '/tmp', a folder; accepted: a YAML file\n"
      "x.yaml:2:9: system: found '/dev/zero', which is not a regular file; accepted: a YAML file");
  // A file that is no map is not printed.
  REQUIRE(message("model: {layers: 1, hidden: 8, heads: 1, sequence: 8, vocabulary: 9}\n"
                  "system: /etc/passwd\nbatch: {global: 1}\n")
              .find("root:") == std::string::npos);
  REQUIRE_THROWS_WITH(
      load_run_config("/dev/zero", {}),
      "/dev/zero: found more than 1 MiB; accepted: a configuration of at most 1 MiB");
}

TEST_CASE("a megabyte of mistakes is refused within seconds", "[run]") {
  std::string const line = GENERATE("  tensr: 1\n", "  tensor: 1\n", "  other: {a: [1, 2]}\n");
  std::string text = "parallel:\n";
  while (text.size() + line.size() < (std::size_t{1} << 20)) text += line;
  auto const start = std::chrono::steady_clock::now();
  REQUIRE(message(text) != "no error");
  REQUIRE(std::chrono::steady_clock::now() - start < std::chrono::seconds{15});
}

TEST_CASE("sequence parallelism without tensor parallelism is a warning and has no effect",
          "[run]") {
  RunConfig const config = parse_run_config(
      head + "parallel: {sequence: true}\nbatch: {global: 1}\n", paper / "x.yaml", {});
  REQUIRE(config.warnings ==
          std::vector{(paper / "x.yaml").string() +
                      ":3:22: parallel.sequence: has no effect with parallel.tensor 1"});
  REQUIRE_FALSE(config.training.parallel.sequence);
}

}  // namespace
}  // namespace stagecraft::run_error_test
