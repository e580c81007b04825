#include "libsim/schedule/zero_bubble_heuristic.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "libsim/schedule/schedule_error.hpp"

namespace stagecraft {

namespace {

/// The three choices that are tried both ways.
struct Choices {
  bool straddles_first_gradient = false;  ///< a warm-up forward may end after the first gradient
                                          ///< could start
  bool holds_back_forwards = false;       ///< for the gradient of a later rank that would wait
  bool fills_any_gap = false;             ///< with a weight gradient, on the worst rank or not
};

struct Settings {
  int stages;
  int microbatches;
  double forward;  ///< durations
  double input_gradient;
  double weight_gradient;
  double transfer;
  MemoryChanges memory;
  double memory_limit;
};

/// What one rank has done so far. Counts are of microbatches, which go in order.
struct Rank {
  std::vector<OrderTask> tasks;
  std::vector<double> forward_ends;
  std::vector<double> gradient_ends;
  int weights = 0;
  double start = 0;
  double end = 0;
  double memory = 0;
  double bubble = 0;  ///< waited since its first forward

  int forwards() const { return static_cast<int>(forward_ends.size()); }
  int gradients() const { return static_cast<int>(gradient_ends.size()); }
  bool has_waiting_weight() const { return weights < gradients(); }
};

/// One of the eight runs.
class Run {
 public:
  Run(Settings const& settings, Choices const& choices)
      : settings_{&settings},
        choices_{choices},
        ranks_(static_cast<std::size_t>(settings.stages)) {}

  void run() {
    warm_up();
    for (int k = 1; k < settings_->microbatches; ++k) {
      forward_round();
      gradient_round(k);
    }
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      while (ranks_[rank].weights < settings_->microbatches) put_weight(rank);
    }
  }

  double span() const {
    double longest = 0;
    for (Rank const& rank : ranks_) {
      longest = std::max(longest, rank.end - rank.forward_ends[0] + settings_->forward);
    }
    return longest;
  }

  std::vector<std::vector<OrderTask>> take() && {
    std::vector<std::vector<OrderTask>> tasks;
    for (Rank& rank : ranks_) tasks.push_back(std::move(rank.tasks));
    return tasks;
  }

 private:
  std::size_t last() const { return ranks_.size() - 1; }

  /// When the input of the rank's next forward, or of its next gradient, arrives; nullopt if it is
  /// made on the rank.
  std::optional<double> forward_arrival(std::size_t rank) const {
    if (rank == 0) return std::nullopt;
    auto const next = static_cast<std::size_t>(ranks_[rank].forwards());
    return ranks_[rank - 1].forward_ends[next] + settings_->transfer;
  }
  std::optional<double> gradient_arrival(std::size_t rank) const {
    if (rank == last()) return std::nullopt;
    auto const next = static_cast<std::size_t>(ranks_[rank].gradients());
    return ranks_[rank + 1].gradient_ends[next] + settings_->transfer;
  }

  void advance(Rank& rank, ChunkRun const& run, double cost, std::optional<double> arrival) {
    double const without_wait = rank.end + cost;
    double const end = arrival ? std::max(without_wait, *arrival + cost) : without_wait;
    if (rank.forwards() > 0) rank.bubble += end - without_wait;
    rank.end = end;
    rank.tasks.push_back({.run = run});
  }

  void put_forward(std::size_t at) {
    Rank& rank = ranks_[at];
    advance(rank, {Part::forward, rank.forwards(), ChunkId{0}}, settings_->forward,
            forward_arrival(at));
    rank.memory += settings_->memory.forward;
    rank.forward_ends.push_back(rank.end);
  }

  void put_gradient(std::size_t at) {
    Rank& rank = ranks_[at];
    advance(rank, {Part::input_gradient, rank.gradients(), ChunkId{0}}, settings_->input_gradient,
            gradient_arrival(at));
    rank.memory += settings_->memory.input_gradient;
    rank.gradient_ends.push_back(rank.end);
  }

  void put_weight(std::size_t at) {
    Rank& rank = ranks_[at];
    advance(rank, {Part::weight_gradient, rank.weights, ChunkId{0}}, settings_->weight_gradient,
            std::nullopt);
    rank.memory += settings_->memory.weight_gradient;
    ++rank.weights;
  }

  double worst_bubble() const {
    double worst = 0;
    for (Rank const& rank : ranks_) worst = std::max(worst, rank.bubble);
    return worst;
  }

  void warm_up() {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) put_forward(rank);
    std::vector<int> more = forwards_before_gradients();
    // A rank that runs as many as the one before it would only wait for them.
    for (std::size_t rank = 1; rank < ranks_.size(); ++rank) {
      while (more[rank] > 0 && more[rank] >= more[rank - 1] &&
             ranks_[rank].forwards() + more[rank] < settings_->microbatches) {
        --more[rank];
      }
    }
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      for (int k = 0; k < more[rank]; ++k) put_forward(rank);
    }
    for (std::size_t rank = ranks_.size(); rank-- > 0;) put_gradient(rank);
  }

  /// Forwards, beyond the first, for which each rank has memory and time before its first gradient
  /// can start.
  std::vector<int> forwards_before_gradients() const {
    std::vector<int> more(ranks_.size());
    double gradient_end = ranks_[last()].forward_ends[0] + settings_->input_gradient;
    for (std::size_t rank = last(); rank-- > 0;) {
      double const arrival = gradient_end + settings_->transfer;
      double memory = ranks_[rank].memory;
      double end = ranks_[rank].end;
      while (ranks_[rank].forwards() + more[rank] < settings_->microbatches &&
             memory + settings_->memory.forward <= settings_->memory_limit) {
        bool const is_late =
            choices_.straddles_first_gradient ? end + settings_->forward > arrival : end >= arrival;
        if (is_late) break;
        memory += settings_->memory.forward;
        end += settings_->forward;
        ++more[rank];
      }
      gradient_end = std::max(end, arrival) + settings_->input_gradient;
    }
    return more;
  }

  void forward_round() {
    std::vector<bool> runs(ranks_.size());
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) runs[rank] = wants_forward(rank);
    for (std::size_t rank = last(); rank-- > 0;) runs[rank] = runs[rank] && runs[rank + 1];
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
      if (!runs[rank]) continue;
      make_room(rank, settings_->memory.forward);
      if (auto const arrival = forward_arrival(rank)) fill_gap(rank, *arrival);
      put_forward(rank);
    }
  }

  bool wants_forward(std::size_t at) const {
    Rank const& rank = ranks_[at];
    if (rank.forwards() >= settings_->microbatches) return false;
    if (!choices_.holds_back_forwards || at == last() ||
        rank.forwards() < ranks_[at + 1].forwards() + 2) {
      return true;
    }
    // Two ahead of the next rank: the next gradient arrives when that rank has run a pair.
    double const gradient_arrival =
        ranks_[at + 1].end + settings_->forward + settings_->input_gradient + settings_->transfer;
    if (rank.end >= gradient_arrival) return false;
    double weights = 0;
    double memory = rank.memory + settings_->memory.forward;
    for (int w = rank.weights; memory > settings_->memory_limit && w < rank.gradients(); ++w) {
      weights += settings_->weight_gradient;
      memory += settings_->memory.weight_gradient;
    }
    if (rank.end + settings_->forward + weights <= gradient_arrival) return true;
    return gradient_arrival - rank.end > worst_bubble() - rank.bubble;
  }

  void gradient_round(int microbatch) {
    for (std::size_t rank = ranks_.size(); rank-- > 0;) {
      make_room(rank, settings_->memory.input_gradient);
      if (auto const arrival = gradient_arrival(rank)) fill_gap(rank, *arrival);
      if (rank == 0 && ranks_[0].forwards() == settings_->microbatches) {
        while (ranks_[0].weights < microbatch) put_weight(0);
      }
      put_gradient(rank);
    }
  }

  void make_room(std::size_t at, double change) {
    Rank const& rank = ranks_[at];
    while (rank.memory + change > settings_->memory_limit) {
      if (!rank.has_waiting_weight()) {
        throw ScheduleError{"memory limit",
                            "one that a rank exceeds with no weight gradient left to run",
                            "a larger one"};
      }
      put_weight(at);
    }
  }

  /// Runs the weight gradients that end before `arrival`, and maybe one that does not.
  void fill_gap(std::size_t at, double arrival) {
    Rank const& rank = ranks_[at];
    while (rank.has_waiting_weight() && rank.end + settings_->weight_gradient <= arrival) {
      put_weight(at);
    }
    if (!rank.has_waiting_weight() || rank.end >= arrival) return;
    bool const may_wait = arrival - rank.end <= worst_bubble() - rank.bubble;
    if (!may_wait || choices_.fills_any_gap) put_weight(at);
  }

  Settings const* settings_;
  Choices choices_;
  std::vector<Rank> ranks_;
};

}  // namespace

PipelineOrder zb_auto_order(int stages,
                            int microbatches,
                            ChunkCosts const& costs,
                            MemoryChanges const& memory,
                            double memory_limit) {
  Settings const settings{
      stages,         microbatches, costs.forward, costs.input_gradient, costs.weight_gradient,
      costs.transfer, memory,       memory_limit};
  std::optional<Run> best;
  for (bool const straddles : {true, false}) {
    for (bool const holds_back : {true, false}) {
      for (bool const fills : {true, false}) {
        Run run{settings, {straddles, holds_back, fills}};
        run.run();
        if (!best || run.span() < best->span()) best.emplace(std::move(run));
      }
    }
  }
  return {round_placement(stages, 1), microbatches, std::move(*best).take()};
}

}  // namespace stagecraft
