#pragma once

#include <catch2/catch.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "libsim/import/layer_windows.hpp"
#include "libsim/import/megatron/megatron_flags.hpp"
#include "libsim/import/megatron/megatron_gaps.hpp"
#include "libsim/import/megatron/megatron_import.hpp"
#include "libsim/plan/fingerprint.hpp"
#include "libsim/plan/make_plan.hpp"
#include "libsim/training/layer_split.hpp"
#include "libsim/training/training_config_checks.hpp"

namespace stagecraft {

/// `config` with what megatron_gaps() lists replaced by what the flags say, and settings without
/// effect as the readers store them.
inline TrainingConfig as_megatron_has_it(TrainingConfig config) {
  ModelConfig& model = config.model;
  ParallelLayout& parallel = config.parallel;
  ScheduleConfig& schedule = config.schedule;
  if (model.activation == Activation::relu) model.activation = Activation::gelu;
  if (model.precision == Precision::fp64) model.precision = Precision::fp32;
  if (!find_windows(model)) model.pattern.clear();
  model.residual = Residual::sequential;
  model.softmax_dropout = SoftmaxDropout::separate;
  model.dropout_mask = DropoutMask::stored;
  if (model.attention_dropout == model.dropout) model.attention_dropout.reset();
  parallel.sequence = parallel.sequence && parallel.tensor > 1;
  bool const has_empty_end = config.layout.first == 0 || config.layout.last == 0;
  if (config.layout.kind == LayerSplit::Kind::list || has_empty_end) {
    config.layout = {.kind = LayerSplit::Kind::list,
                     .first = {},
                     .last = {},
                     .list = layers_of_virtual_stages(config)};
  }
  bool const is_interleaved = parallel.interleave > 1;
  schedule.kind = is_interleaved ? ScheduleKind::interleaved : ScheduleKind::one_f_one_b;
  if (!is_interleaved) schedule.p2p = P2p::blocking;
  if (!is_interleaved) schedule.group = 0;
  if (is_interleaved && schedule.group == 0) schedule.group = parallel.pipeline;
  schedule.scatter_gather = parallel.sequence || parallel.tensor == 1 || parallel.pipeline == 1;
  config.recompute.resize(1);
  config.recompute.front().store_microbatches = {};
  config.memory.output_deallocation = true;
  return config;
}

/// A command line cut at its spaces.
inline std::vector<ShellWord> words_of(std::string const& line) {
  std::vector<ShellWord> words;
  std::istringstream stream{line};
  for (std::string word; stream >> word;) words.push_back({word, 0, 0});
  return words;
}

/// The run that the flags of a run describe.
inline TrainingConfig imported(TrainingConfig const& config) {
  MegatronOptions options;
  options.world_size = world_size(config.parallel);
  return import_megatron(words_of(megatron_flags(config)), "flags", options).config;
}

/// Fails the test if the flags of a run do not describe it, but for what is listed as a gap.
inline void require_round_trip(TrainingConfig const& config) {
  CAPTURE(megatron_flags(config));
  TrainingConfig const wanted = as_megatron_has_it(config);
  REQUIRE(problems_of(wanted).empty());
  REQUIRE(settled_with_stack(imported(config)) == settled_with_stack(wanted));
  if (!megatron_gaps(config).empty()) return;
  REQUIRE(fingerprint(make_plan(as_settled(wanted))) == fingerprint(make_plan(as_settled(config))));
}

}  // namespace stagecraft
