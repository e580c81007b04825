#include "libsim/training/routing_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "libsim/model/layer_kinds.hpp"
#include "libsim/training/combination_check.hpp"
#include "libsim/training/training_names.hpp"

namespace stagecraft {
namespace {

/// The ranks that split the sequence where experts read it.
std::int64_t sequence_ranks(ParallelLayout const& parallel) {
  return std::int64_t{parallel.sequence ? parallel.tensor : 1} * parallel.context;
}

class RoutingCheck : CombinationCheck {
 public:
  using CombinationCheck::CombinationCheck;

  void check() const {
    bool const knows_routing = sound({"routing"});
    for (LayerRun const& run : layer_runs(config_.model)) {
      if (run.kind.experts && knows_routing) check_bounds(*run.kind.experts);
    }
    bool const knows_tokens = sound({"batch"}) && knows_routing;
    if (knows_tokens && config_.routing.counts) check_counts(*config_.routing.counts);
    if (knows_routing && config_.routing.is_natural) {
      root_.child("routing").warn(
          "times are those of balanced routing and memory is that of the worst case, as the router "
          "decides");
    }
  }

 private:
  void check_bounds(ExpertsConfig const& experts) const {
    double const of_one =
        static_cast<double>(experts.count) / static_cast<double>(experts.per_token);
    double const of_rank = largest_routing_factor(experts, config_.parallel.expert);
    auto const bound = [&](std::string const& key, double value, double most,
                           std::string_view what) {
      if (value <= most) return;
      refuse("routing." + key, "", fmt::format("a number up to {:g}, {}", most, what));
    };
    bound("capacity", config_.routing.capacity.value_or(0), of_one,
          "model.experts.count / per_token");
    bound("factor", config_.routing.factor.value_or(0), of_rank,
          "the smaller of parallel.expert and model.experts.count / per_token");
  }

  void check_counts(CountsFile const& file) const {
    auto const origin = std::make_shared<std::string const>(file.path);
    auto const report = [&](int line, std::string found, std::string accepted) {
      root_.diagnostics().add({.place = {origin, line, line > 0 ? 1 : 0},
                               .key = "routing.file",
                               .found = std::move(found),
                               .accepted = std::move(accepted)});
    };
    LayerKinds const kinds = kinds_with_predictions(config_.model);
    std::int64_t const tokens = config_.model.sequence * config_.batch.micro;
    std::int64_t const in_batch = config_.batch.global / config_.batch.micro;
    std::set<std::pair<std::int64_t, BatchMicrobatchId>> known;
    for (CountsOfLayer const& counts : file.layers) {
      std::string const layer = "layer " + to_text(counts.layer);
      known.emplace(counts.layer, counts.microbatch);
      if (counts.layer >= kinds.layers() || !kinds.of_layer(counts.layer).experts) {
        report(counts.line, layer, "a layer with experts, of " + to_text(kinds.layers()));
        continue;
      }
      if (counts.microbatch.value() >= in_batch) {
        report(counts.line, "microbatch " + to_text(counts.microbatch.value()),
               "one from 0 to " + to_text(in_batch - 1) + ", or none for all");
        continue;
      }
      ExpertsConfig const& experts = *kinds.of_layer(counts.layer).experts;
      auto const given = static_cast<std::int64_t>(std::count_if(
          counts.rows.begin(), counts.rows.end(), [](std::int64_t rows) { return rows >= 0; }));
      if (given != experts.count || std::ssize(counts.rows) != experts.count) {
        report(counts.line, to_text(given) + " experts of " + layer,
               "each of " + to_text(experts.count) + " once (model.experts.count)");
        continue;
      }
      std::int64_t const most = *std::max_element(counts.rows.begin(), counts.rows.end());
      if (most > tokens) {
        report(counts.line, to_text(most) + " rows of an expert of " + layer,
               "at most " + to_text(tokens) + ", the tokens of a microbatch");
      }
      std::int64_t const sum =
          std::accumulate(counts.rows.begin(), counts.rows.end(), std::int64_t{0});
      if (sum == tokens * experts.per_token) continue;
      report(counts.line, "a sum of " + to_text(sum) + " rows of " + layer,
             to_text(tokens * experts.per_token) +
                 ", as model.sequence x batch.micro x model.experts.per_token is");
    }
    for (int layer = 0; layer < kinds.layers(); ++layer) {
      if (!kinds.of_layer(layer).experts || known.contains({layer, every_microbatch})) continue;
      BatchMicrobatchId missing{0};
      while (missing.value() < in_batch && known.contains({layer, missing}))
        missing = next(missing);
      if (missing.value() == in_batch) continue;
      report(0, "no rows of layer " + to_text(layer) + " in microbatch " + to_text(missing.value()),
             "rows of each layer with experts, for each microbatch or, with that empty, for all");
      return;
    }
  }
};

}  // namespace

double largest_routing_factor(ExpertsConfig const& experts, int ranks) {
  return std::min(static_cast<double>(ranks),
                  static_cast<double>(experts.count) / static_cast<double>(experts.per_token));
}

std::int64_t choices_of_rank(TrainingConfig const& config, ExpertsConfig const& experts) {
  std::int64_t const split = sequence_ranks(config.parallel);
  return config.model.sequence / split * config.batch.micro * experts.per_token;
}

bool may_be_balanced(TrainingConfig const& config, ExpertsConfig const& experts) {
  if (config.model.sequence % sequence_ranks(config.parallel) != 0) return true;
  return choices_of_rank(config, experts) % experts.count == 0;
}

bool settle_routing(TrainingConfig& config) {
  if (!config.routing.is_balanced()) return false;
  for (LayerRun const& run : layer_runs(config.model)) {
    if (!run.kind.experts || may_be_balanced(config, *run.kind.experts)) continue;
    config.routing.factor = 1;
    return true;
  }
  return false;
}

void check_routing(TrainingConfig const& config, ConfigNode const& root) {
  RoutingCheck{config, root}.check();
}

}  // namespace stagecraft
