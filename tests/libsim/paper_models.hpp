#pragma once

#include <array>
#include <cstdint>

#include "libsim/model/model_config.hpp"
#include "libsim/training/training_config.hpp"

namespace stagecraft {

/// A GPT of the paper's architecture: one head dimension of h/a, MLP of 4h, everything else
/// default.
inline ModelConfig gpt(std::int64_t layers,
                       std::int64_t hidden,
                       std::int64_t heads,
                       std::int64_t sequence,
                       std::int64_t vocabulary) {
  ModelConfig model;
  model.layers = layers;
  model.hidden = hidden;
  model.heads = heads;
  model.kv_heads = heads;
  model.head_dim = hidden / heads;
  model.sequence = sequence;
  model.vocabulary = vocabulary;
  model.ffn_hidden = 4 * hidden;
  return model;
}

/// A row of table 3 of Korthikanti et al. 2022 (t = 8, s = 2048, v = 51200, no data parallelism).
struct Table3Row {
  char const* name;
  std::int64_t heads, hidden, layers;
  int pipeline, interleave;
  std::int64_t global, micro;
};

inline constexpr std::array<Table3Row, 4> table3_rows{{{"22B", 64, 6144, 48, 1, 1, 4, 4},
                                                       {"175B", 96, 12288, 96, 8, 3, 64, 1},
                                                       {"530B", 128, 20480, 105, 35, 3, 280, 1},
                                                       {"1T", 160, 25600, 128, 64, 1, 512, 1}}};

inline ModelConfig model_of(Table3Row const& row) {
  return gpt(row.layers, row.hidden, row.heads, 2048, 51200);
}

/// The run of table 3 under a policy, with or without sequence parallelism.
inline TrainingConfig run_of(Table3Row const& row,
                             RecomputeGranularity granularity,
                             bool sequence) {
  TrainingConfig config;
  config.model = model_of(row);
  config.parallel = {
      .tensor = 8, .pipeline = row.pipeline, .interleave = row.interleave, .sequence = sequence};
  config.batch = {.global = row.global, .micro = row.micro};
  if (row.interleave > 1) {
    config.schedule.kind = ScheduleKind::interleaved;
    config.schedule.group = row.pipeline;
  }
  config.recompute.front().granularity = granularity;
  return config;
}

}  // namespace stagecraft
