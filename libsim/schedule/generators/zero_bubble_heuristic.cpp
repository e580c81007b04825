#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "libsim/schedule/generators/generators.hpp"
#include "libsim/schedule/orders/schedule_error.hpp"

namespace stagecraft {

namespace {

/// The three choices that are tried both ways.
struct Choices {
  bool straddles_first_gradient = false;  ///< a warm-up forward may end after the first gradient
                                          ///< could start
  bool holds_back_forwards = false;       ///< for the gradient of a later stage that would wait
  bool fills_any_gap = false;             ///< with a weight gradient, on the worst stage or not
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

/// The progress of a stage. Counts are of microbatches, which go in order.
struct Stage {
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

/// One of the eight runs, one for each choice. It owns the progress of every stage; a task is
/// placed when those that it waits for have been, at the end of what its stage has.
class Run {
 public:
  Run(Settings const& settings, Choices const& choices)
      : settings_{&settings},
        choices_{choices},
        stages_(static_cast<std::size_t>(settings.stages)) {}

  void run() {
    warm_up();
    for (int k = 1; k < settings_->microbatches; ++k) {
      forward_round();
      gradient_round(k);
    }
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      while (stages_[stage].weights < settings_->microbatches) put_weight(stage);
    }
  }

  double span() const {
    double longest = 0;
    for (Stage const& stage : stages_) {
      longest = std::max(longest, stage.end - stage.forward_ends[0] + settings_->forward);
    }
    return longest;
  }

  std::vector<std::vector<OrderTask>> take() && {
    std::vector<std::vector<OrderTask>> tasks;
    for (Stage& stage : stages_) tasks.push_back(std::move(stage.tasks));
    return tasks;
  }

 private:
  std::size_t last() const { return stages_.size() - 1; }

  /// When the input of the stage's next forward, or of its next gradient, arrives; nullopt if it is
  /// made on the stage.
  std::optional<double> forward_arrival(std::size_t stage) const {
    if (stage == 0) return std::nullopt;
    auto const next = static_cast<std::size_t>(stages_[stage].forwards());
    return stages_[stage - 1].forward_ends[next] + settings_->transfer;
  }
  std::optional<double> gradient_arrival(std::size_t stage) const {
    if (stage == last()) return std::nullopt;
    auto const next = static_cast<std::size_t>(stages_[stage].gradients());
    return stages_[stage + 1].gradient_ends[next] + settings_->transfer;
  }

  void advance(Stage& stage, ChunkRun const& run, double cost, std::optional<double> arrival) {
    double const without_wait = stage.end + cost;
    double const end = arrival ? std::max(without_wait, *arrival + cost) : without_wait;
    if (stage.forwards() > 0) stage.bubble += end - without_wait;
    stage.end = end;
    stage.tasks.push_back({.run = run});
  }

  void put_forward(std::size_t at) {
    Stage& stage = stages_[at];
    advance(stage, {Pass::forward, MicrobatchId{stage.forwards()}, ChunkId{0}}, settings_->forward,
            forward_arrival(at));
    stage.memory += settings_->memory.forward;
    stage.forward_ends.push_back(stage.end);
  }

  void put_gradient(std::size_t at) {
    Stage& stage = stages_[at];
    advance(stage, {Pass::input_gradient, MicrobatchId{stage.gradients()}, ChunkId{0}},
            settings_->input_gradient, gradient_arrival(at));
    stage.memory += settings_->memory.input_gradient;
    stage.gradient_ends.push_back(stage.end);
  }

  void put_weight(std::size_t at) {
    Stage& stage = stages_[at];
    advance(stage, {Pass::weight_gradient, MicrobatchId{stage.weights}, ChunkId{0}},
            settings_->weight_gradient, std::nullopt);
    stage.memory += settings_->memory.weight_gradient;
    ++stage.weights;
  }

  double worst_bubble() const {
    double worst = 0;
    for (Stage const& stage : stages_) worst = std::max(worst, stage.bubble);
    return worst;
  }

  void warm_up() {
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) put_forward(stage);
    std::vector<int> more = forwards_before_gradients();
    // A stage with as many warm-up forwards as the one before it would only wait for them.
    for (std::size_t stage = 1; stage < stages_.size(); ++stage) {
      while (more[stage] > 0 && more[stage] >= more[stage - 1] &&
             stages_[stage].forwards() + more[stage] < settings_->microbatches) {
        --more[stage];
      }
    }
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      for (int k = 0; k < more[stage]; ++k) put_forward(stage);
    }
    for (std::size_t stage = stages_.size(); stage-- > 0;) put_gradient(stage);
  }

  /// Forwards, beyond the first, for which each stage has memory and time before its first gradient
  /// can start.
  std::vector<int> forwards_before_gradients() const {
    std::vector<int> more(stages_.size());
    double gradient_end = stages_[last()].forward_ends[0] + settings_->input_gradient;
    for (std::size_t stage = last(); stage-- > 0;) {
      double const arrival = gradient_end + settings_->transfer;
      double memory = stages_[stage].memory;
      double end = stages_[stage].end;
      while (stages_[stage].forwards() + more[stage] < settings_->microbatches &&
             memory + settings_->memory.forward <= settings_->memory_limit) {
        bool const is_late =
            choices_.straddles_first_gradient ? end + settings_->forward > arrival : end >= arrival;
        if (is_late) break;
        memory += settings_->memory.forward;
        end += settings_->forward;
        ++more[stage];
      }
      gradient_end = std::max(end, arrival) + settings_->input_gradient;
    }
    return more;
  }

  void forward_round() {
    std::vector<bool> runs(stages_.size());
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) runs[stage] = wants_forward(stage);
    for (std::size_t stage = last(); stage-- > 0;) runs[stage] = runs[stage] && runs[stage + 1];
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      if (!runs[stage]) continue;
      make_room(stage, settings_->memory.forward);
      if (auto const arrival = forward_arrival(stage)) fill_gap(stage, *arrival);
      put_forward(stage);
    }
  }

  bool wants_forward(std::size_t at) const {
    Stage const& stage = stages_[at];
    if (stage.forwards() >= settings_->microbatches) return false;
    if (!choices_.holds_back_forwards || at == last() ||
        stage.forwards() < stages_[at + 1].forwards() + 2) {
      return true;
    }
    // Two ahead of the next stage: the next gradient arrives when that stage has run a pair.
    double const gradient_arrival =
        stages_[at + 1].end + settings_->forward + settings_->input_gradient + settings_->transfer;
    if (stage.end >= gradient_arrival) return false;
    double weights = 0;
    double memory = stage.memory + settings_->memory.forward;
    for (int w = stage.weights; memory > settings_->memory_limit && w < stage.gradients(); ++w) {
      weights += settings_->weight_gradient;
      memory += settings_->memory.weight_gradient;
    }
    if (stage.end + settings_->forward + weights <= gradient_arrival) return true;
    return gradient_arrival - stage.end > worst_bubble() - stage.bubble;
  }

  void gradient_round(int microbatch) {
    for (std::size_t stage = stages_.size(); stage-- > 0;) {
      make_room(stage, settings_->memory.input_gradient);
      if (auto const arrival = gradient_arrival(stage)) fill_gap(stage, *arrival);
      if (stage == 0 && stages_[0].forwards() == settings_->microbatches) {
        while (stages_[0].weights < microbatch) put_weight(0);
      }
      put_gradient(stage);
    }
  }

  void make_room(std::size_t at, double change) {
    Stage const& stage = stages_[at];
    while (stage.memory + change > settings_->memory_limit) {
      if (!stage.has_waiting_weight()) {
        throw ScheduleError{
            "memory limit",
            fmt::format("'{:g}' forwards, too few for stage {} although all its weight gradients "
                        "have run",
                        settings_->memory_limit / settings_->memory.forward, at),
            "a larger limit"};
      }
      put_weight(at);
    }
  }

  /// Runs the weight gradients that end before `arrival`, and maybe one that does not.
  void fill_gap(std::size_t at, double arrival) {
    Stage const& stage = stages_[at];
    while (stage.has_waiting_weight() && stage.end + settings_->weight_gradient <= arrival) {
      put_weight(at);
    }
    if (!stage.has_waiting_weight() || stage.end >= arrival) return;
    bool const may_wait = arrival - stage.end <= worst_bubble() - stage.bubble;
    if (!may_wait || choices_.fills_any_gap) put_weight(at);
  }

  Settings const* settings_;
  Choices choices_;
  std::vector<Stage> stages_;
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
