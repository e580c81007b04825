#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <set>

#include "libsim/modules/blocks.hpp"
#include "libsim/run/config_files.hpp"
#include "tests/libsim/paper_models.hpp"

namespace stagecraft::parameter_count_test {
namespace {

std::filesystem::path const models =
    std::filesystem::path{STAGECRAFT_SOURCE_DIR} / "configs" / "models";

/// As published: sums of the released checkpoints' tensors (Hugging Face model cards and
/// safetensors indices); the paper's four by its own formula, 12Lh^2 (1 + 13/(12h) + (v +
/// s)/(12hL)) and the final norm's 2h (Narayanan et al. 2021, arXiv:2104.04473, equation 1, counts
/// 2h less).
std::map<std::string, std::int64_t> const published{
    {"gpt2-small", 124'439'808},
    {"gpt2-xl", 1'557'611'200},
    {"llama2-7b", 6'738'415'616},
    {"llama2-70b", 68'976'648'192},
    {"llama3-8b", 8'030'261'248},
    {"llama3-405b", 405'853'388'800},
    {"gpt-22b", 22'074'273'792},
    {"gpt3-175b", 174'615'846'912},
    {"mtnlg-530b", 529'600'819'200},
    {"gpt-1t", 1'008'038'758'400},
    {"llama3-70b", 70'553'706'496},
    {"llama3.1-8b", 8'030'261'248},
    {"llama3.1-70b", 70'553'706'496},
    {"llama3.1-405b", 405'853'388'800},
    {"llama3.1-8b-128k", 8'030'261'248},
    {"llama3.1-70b-128k", 70'553'706'496},
    {"llama3.1-405b-128k", 405'853'388'800},
    {"mistral-7b", 7'248'023'552},
    {"mixtral-8x7b", 46'702'792'704},
    {"mixtral-8x22b", 140'630'071'296},
    // L (2h^2 + 16 d h + 8h^2 + 4h) + 2 v h + 2h: the papers' 12.5 + 3.2 and 331.6 + 9.4 billion.
    {"nemotron4-15b", 15'628'775'424},
    {"nemotron4-340b", 341'029'195'776},
    {"olmo2-7b", 7'298'617'344},
    {"qwen3-8b", 8'190'735'360},
    {"qwen3-14b", 14'768'307'200},
    {"qwen3-32b", 32'762'123'264},
    {"qwen3-30b-a3b", 30'532'122'624},
    {"qwen3-235b-a22b", 235'093'634'560},
    {"gpt-oss-20b", 20'914'757'184},
    {"gpt-oss-120b", 116'829'156'672},
    // 671,026,419,200 without the module of multi-token prediction, less 58 x 256 biases of
    // routers, which are buffers.
    {"deepseek-v3", 671'026'419'200 - 58 * 256},
    {"gemma2-9b", 9'241'705'984},
    // The checkpoints' 12,187,325,040 and 27,432,406,640 less the vision tower's 416,866,032 and
    // its projection's 1152 (h + 1).
    {"gemma3-12b", 12'187'325'040 - 416'866'032 - 1152 * (3840 + 1)},
    {"gemma3-27b", 27'432'406'640 - 416'866'032 - 1152 * (5376 + 1)}};

TEST_CASE("every model file has the published number of parameters", "[model]") {
  std::set<std::string> seen;
  for (auto const& entry : std::filesystem::directory_iterator{models}) {
    std::string const name = entry.path().stem();
    CAPTURE(name);
    REQUIRE(published.contains(name));
    REQUIRE(parameter_count(load_model_file(entry.path())) == published.at(name));
    seen.insert(name);
  }
  REQUIRE(seen.size() == published.size());
}

TEST_CASE(
    "the paper's models have 12Lh^2 (1 + 13/(12h) + (v + s)/(12hL)) parameters and a final norm",
    "[model]") {
  for (Table3Row const& row : table3_rows) {
    CAPTURE(row.name);
    std::int64_t const L = row.layers, h = row.hidden;
    REQUIRE(parameter_count(model_of(row)) ==
            12 * L * h * h + 13 * L * h + (51200 + 2048) * h + 2 * h);
  }
}

TEST_CASE("a layer on one of t ranks holds 1/t of its matrices and all of norms and row biases",
          "[model]") {
  // Megatron-LM: QKV and MLP-up biases are cut with their rows; 6h are whole (two norms, two
  // biases).
  std::int64_t const h = 512, t = 4;
  BlockProgram const layer =
      build_layers({.model = gpt(1, h, 8, 64, 1000), .tensor = static_cast<int>(t)}, 1, {});
  std::int64_t held = 0, counted = 0;
  for (Parameter const& parameter : layer.parameters) {
    held += layer.tensor(parameter.weight).shape.elements();
    counted += published_elements(parameter);
    REQUIRE(layer.tensor(parameter.weight).shape == layer.tensor(parameter.gradient).shape);
  }
  REQUIRE(held == (12 * h * h + 7 * h) / t + 6 * h);
  REQUIRE(counted == 12 * h * h + 13 * h);
}

TEST_CASE("only norms and row-parallel biases have partial gradients, under sequence parallelism",
          "[model]") {
  // Megatron-LM, parameters marked sequence_parallel: 6h of a layer.
  std::int64_t const h = 512;
  bool const sequence = GENERATE(false, true);
  BlockProgram const layer = build_layers(
      {.model = gpt(1, h, 8, 64, 1000), .tensor = 4, .sequence_parallel = sequence}, 1, {});
  std::int64_t partial = 0;
  for (Parameter const& parameter : layer.parameters) {
    for (RowSegment const& segment : parameter.segments) {
      if (segment.gradient_sum) partial += layer.tensor(parameter.weight).shape.elements();
    }
  }
  REQUIRE(partial == (sequence ? 6 * h : 0));
}

TEST_CASE("an untied head has a matrix of its own, a tied one none", "[model]") {
  ModelConfig model = gpt(2, 64, 4, 32, 1000);
  std::int64_t const tied = parameter_count(model);
  model.tied_embeddings = false;
  REQUIRE(parameter_count(model) == tied + 1000 * 64);
}

}  // namespace
}  // namespace stagecraft::parameter_count_test
