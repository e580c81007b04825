#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "libsim/training/training_config.hpp"
#include "tests/libsim/odd_runs.hpp"

namespace stagecraft {

/// Counts of which each layer, and each of `microbatches` if there are any, makes another rank
/// compute most rows: each expert of a layer gets between none of the `tokens` and all of them,
/// each token `per_token` experts.
inline Routing drawn_routing(std::uint32_t seed,
                             std::int64_t layers,
                             int experts,
                             std::int64_t per_token,
                             std::int64_t tokens,
                             int microbatches = 0) {
  std::mt19937 generator{seed};
  auto const rows = [&] {
    std::vector<std::int64_t> drawn(static_cast<std::size_t>(experts));
    std::int64_t left = per_token * tokens;
    auto const first = generator() % static_cast<std::uint32_t>(experts);
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      std::int64_t const behind = static_cast<std::int64_t>(drawn.size() - i - 1) * tokens;
      std::int64_t const least = std::max<std::int64_t>(0, left - behind);
      std::int64_t const most = std::min(tokens, left);
      std::int64_t const of_this =
          least +
          static_cast<std::int64_t>(generator() % static_cast<std::uint32_t>(most - least + 1));
      drawn[(first + i) % drawn.size()] = of_this;
      left -= of_this;
    }
    return drawn;
  };
  CountsFile file{"counts.csv", {}};
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    file.layers.push_back({layer, every_microbatch, rows()});
    for (int k = 0; k < microbatches; ++k) {
      file.layers.push_back({layer, BatchMicrobatchId{k}, rows()});
    }
  }
  return {.counts = SharedCounts{std::move(file)}};
}

/// Runs whose ranks compute different numbers of rows, so that which of them is the fullest depends
/// on the stage.
inline std::vector<OddRun> uneven_runs() {
  std::vector<OddRun> runs;
  auto const add = [&](std::string name, int pipeline, bool by_microbatch, auto change) {
    TrainingConfig config;
    config.model = gpt(4, 128, 8, 64, 1000);
    config.model.experts = ExpertsConfig{.count = 4, .per_token = 1, .ffn_hidden = 256};
    config.parallel = {.tensor = 1, .pipeline = pipeline, .data = 2, .expert = 2};
    config.batch = {.global = 8, .micro = 1};
    config.routing =
        drawn_routing(static_cast<std::uint32_t>(runs.size()), 4, 4, 1, 64, by_microbatch ? 8 : 0);
    change(config);
    runs.push_back({std::move(name), std::move(config)});
  };
  using C = TrainingConfig;
  add("one stage", 1, false, [](C&) {});
  add("one stage, by microbatch", 1, true, [](C&) {});
  add("two stages", 2, false, [](C&) {});
  add("two stages, by microbatch", 2, true, [](C&) {});
  add("four stages, by microbatch", 4, true, [](C& c) { c.sharding = sharding_of(true); });
  add("four experts' ranks, full recompute", 2, true, [](C& c) {
    c.parallel.data = c.parallel.expert = 4;
    c.recompute.front().granularity = RecomputeGranularity::full;
  });
  add("a stored microbatch", 2, true, [](C& c) {
    c.recompute.front().granularity = RecomputeGranularity::selective;
    c.recompute.front().store_microbatches.count = 1;
  });
  add("allgather, interleaved", 2, false, [](C& c) {
    c.dispatch = Dispatch::allgather;
    c.parallel.interleave = 2;
    c.schedule = {.kind = ScheduleKind::interleaved, .group = 2};
  });
  return runs;
}

}  // namespace stagecraft
