#include "libsim/interval/measured_range.hpp"

#include <catch2/catch.hpp>
#include <filesystem>

#include "libsim/run/config_files.hpp"

namespace stagecraft::measured_range_test {
namespace {

std::filesystem::path const configs = std::filesystem::path{STAGECRAFT_SOURCE_DIR} / "configs";

std::vector<std::string> unmeasured(std::string const& run,
                                    std::vector<std::string> const& overrides) {
  RunConfig const config = load_run_config(configs / "paper" / run, overrides);
  return unmeasured_settings(config.training, config.system);
}

}  // namespace

TEST_CASE("the runs of table 5, which were measured, have no unmeasured settings", "[interval]") {
  for (std::string const model : {"22b", "175b", "530b", "1t"}) {
    for (std::string const kind : {"full", "present"}) {
      CAPTURE(model, kind);
      REQUIRE(unmeasured(model + "-" + kind + ".yaml", {}).empty());
    }
  }
}

TEST_CASE("what no run was measured with is named with what was", "[interval]") {
  using Texts = std::vector<std::string>;
  REQUIRE(unmeasured("175b-present.yaml", {"model.attention=flash", "model.sequence=131072"}) ==
          Texts{"model.sequence 131072 (measured on A100: 1024 to 2048)",
                "model.attention flash (measured on A100: unfused)"});
  REQUIRE(unmeasured("175b-present.yaml",
                     {"model.precision=bf16", "parallel.data=128", "batch.global=8192"}) ==
          Texts{"8192 GPUs (measured on A100: up to 3360)",
                "model.precision bf16 (measured on A100: fp16)"});
  REQUIRE(unmeasured(
              "175b-present.yaml",
              {"model.experts={count: 8, per_token: 2, ffn_hidden: 4096}", "model.biases=false"}) ==
          Texts{"model.experts (measured on A100: dense models)"});
  REQUIRE(unmeasured("22b-full.yaml",
                     {"system=dgx-h100", "model.attention=flash", "model.attention_dropout=0",
                      "model.precision=bf16", "model.sequence=8192", "parallel.context=4"}) ==
          Texts{"parallel.context 4 (measured on H100: up to 2)",
                "recompute full (measured on H100: none, selective)"});
  REQUIRE(unmeasured("22b-full.yaml", {"system=mi300x"}).front().starts_with("accelerator "));
}

TEST_CASE("a regime or stack of which no run was measured on a validated system is named",
          "[interval]") {
  // Korthikanti et al. ran Megatron-LM of their time, without context parallelism.
  REQUIRE(unmeasured("175b-present.yaml", {}).empty());
  REQUIRE(unmeasured("175b-present.yaml", {"software=megatron-core"}) ==
          std::vector<std::string>{
              "dense models in fp16 with the stack 'megatron-core' on selene-a100 (no run was "
              "measured)"});
  // aws-p5 has dense models of nanotron; experts were measured on a DGX H100.
  std::vector<std::string> const experts{"system=aws-p5",      "software=nanotron",
                                         "recompute=none",     "model=mixtral-8x7b",
                                         "parallel.data=8",    "batch={global: 64, micro: 1}",
                                         "model.sequence=4096"};
  REQUIRE(unmeasured("22b-present.yaml", experts) ==
          std::vector<std::string>{
              "mixtures of experts in bf16 with the stack 'nanotron' on aws-p5 (no run was "
              "measured)"});
}

}  // namespace stagecraft::measured_range_test
