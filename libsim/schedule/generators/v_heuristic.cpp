#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "libsim/schedule/generators/generators.hpp"
#include "libsim/schedule/orders/schedule_error.hpp"

namespace stagecraft {

namespace {

/// The legs of a microbatch through a stage in the order in which they depend on each other: down
/// the V in chunk 0, up in chunk 1, and the gradients back.
enum class Leg { forward_down, forward_up, gradient_down, gradient_up };

std::size_t index_of(Leg leg) { return static_cast<std::size_t>(leg); }
bool goes_down(Leg leg) { return leg == Leg::forward_down || leg == Leg::gradient_down; }
bool is_forward(Leg leg) { return leg == Leg::forward_down || leg == Leg::forward_up; }

/// Gradients go down the V in chunk 1, from the end of the model.
ChunkId chunk_of(Leg leg) {
  return ChunkId{leg == Leg::forward_down || leg == Leg::gradient_up ? 0 : 1};
}

struct VSettings {
  int stages;
  int microbatches;
  ChunkCosts const& costs;
  MemoryChanges memory;
  double memory_limit;
};

/// When a weight gradient may run although the stage has not waited longer than others.
struct VChoices {
  bool fills_before_gradient = false;  ///< of chunk 1; before a gradient of chunk 0 it always may
  bool fills_before_forward = false;
};

/// The progress of a stage.
struct VStage {
  std::vector<OrderTask> tasks;
  std::array<std::vector<double>, 4> ends;  ///< by Leg, of each microbatch
  std::deque<ChunkRun> waiting_weights;
  double end = 0;
  double memory = 0;
  double bubble = 0;  ///< waited since its first forward

  int count(Leg leg) const { return static_cast<int>(ends[index_of(leg)].size()); }
  int forwards() const { return count(Leg::forward_down) + count(Leg::forward_up); }
};

/// One try: the legs of all microbatches placed one after another. It owns the progress of every
/// stage; legs of one kind run in the order of microbatches, each after those that it needs.
class VRun {
 public:
  /// `approved` are the bubbles of a try before; empty in the first.
  VRun(VSettings const& settings, VChoices const& choices, std::vector<double> approved)
      : settings_{&settings},
        choices_{choices},
        approved_{std::move(approved)},
        stages_(static_cast<std::size_t>(settings.stages)) {
    for (double const bubble : approved_) worst_approved_ = std::max(worst_approved_, bubble);
  }

  void run() {
    warm_up();
    even_out_warm_up();
    for (int k = 0; k < 2 * settings_->microbatches; ++k) {
      gradient_round();
      forward_round();
    }
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      while (!stages_[stage].waiting_weights.empty()) put_weight(stage);
    }
  }

  double worst_bubble() const {
    double worst = 0;
    for (VStage const& stage : stages_) worst = std::max(worst, stage.bubble);
    return worst;
  }
  std::vector<double> bubbles() const {
    std::vector<double> bubbles;
    for (VStage const& stage : stages_) bubbles.push_back(stage.bubble);
    return bubbles;
  }
  std::vector<std::vector<OrderTask>> take() && {
    std::vector<std::vector<OrderTask>> tasks;
    for (VStage& stage : stages_) tasks.push_back(std::move(stage.tasks));
    return tasks;
  }

 private:
  bool is_last(std::size_t stage) const { return stage + 1 == stages_.size(); }

  /// The stage on which a microbatch's leg runs before it runs on `stage`; nullopt if the V begins
  /// or turns there.
  std::optional<std::size_t> stage_before(std::size_t stage, Leg leg) const {
    if (goes_down(leg)) return stage == 0 ? std::nullopt : std::optional{stage - 1};
    return is_last(stage) ? std::nullopt : std::optional{stage + 1};
  }

  /// When the stage's next leg of the kind ends on the stage before; nullopt if it has not run.
  std::optional<double> end_before(std::size_t stage, Leg leg) const {
    auto const before = stage_before(stage, leg);
    if (!before) return std::nullopt;
    auto const& ends = stages_[*before].ends[index_of(leg)];
    auto const next = static_cast<std::size_t>(stages_[stage].count(leg));
    return next < ends.size() ? std::optional{ends[next]} : std::nullopt;
  }

  /// The bubble up to which the stage may wait without a loss.
  double accepted_bubble(std::size_t stage) const {
    return approved_.empty() ? worst_bubble()
                             : std::max(worst_bubble(), worst_approved_ - approved_[stage]);
  }

  void change_memory(VStage& stage, double change) const {
    if (stage.memory + change > settings_->memory_limit) {
      double const forward = settings_->memory.forward;
      throw ScheduleError{
          "memory limit",
          fmt::format("'{:g}' forwards, which zbv exceeds: a stage would hold {:g}",
                      settings_->memory_limit / forward, (stage.memory + change) / forward),
          "a larger limit"};
    }
    stage.memory += change;
  }

  void put(std::size_t at, Leg leg) {
    VStage& stage = stages_[at];
    auto const end_there = end_before(at, leg);
    bool const has_own_input = leg == Leg::forward_down || stage.ends[index_of(leg) - 1].size() >
                                                               stage.ends[index_of(leg)].size();
    if (stage.count(leg) >= settings_->microbatches || !has_own_input ||
        (stage_before(at, leg) && !end_there)) {
      throw ScheduleError{"schedule zbv, automatic",
                          "a shape for which its rules have no next task",
                          "another number of microbatches or memory limit"};
    }
    change_memory(stage,
                  is_forward(leg) ? settings_->memory.forward : settings_->memory.input_gradient);
    double const cost =
        is_forward(leg) ? settings_->costs.forward : settings_->costs.input_gradient;
    double const without_wait = stage.end + cost;
    double const end = end_there
                           ? std::max(without_wait, *end_there + settings_->costs.transfer + cost)
                           : without_wait;
    if (stage.forwards() > 0) stage.bubble += end - without_wait;
    stage.end = end;
    ChunkRun const run{is_forward(leg) ? Pass::forward : Pass::input_gradient,
                       MicrobatchId{stage.count(leg)}, chunk_of(leg)};
    stage.tasks.push_back({.run = run});
    stage.ends[index_of(leg)].push_back(end);
    if (!is_forward(leg)) {
      stage.waiting_weights.push_back({Pass::weight_gradient, run.microbatch, run.chunk});
    }
  }

  void put_weight(std::size_t at) {
    VStage& stage = stages_[at];
    change_memory(stage, settings_->memory.weight_gradient);
    stage.end += settings_->costs.weight_gradient;
    stage.tasks.push_back({.run = stage.waiting_weights.front()});
    stage.waiting_weights.pop_front();
  }

  void make_room(std::size_t at, double change) {
    while (stages_[at].memory + change > settings_->memory_limit) {
      if (stages_[at].waiting_weights.empty()) change_memory(stages_[at], change);  // throws
      put_weight(at);
    }
  }

  /// Runs the weight gradients that end before the leg can start and, if `fills` holds, one more if
  /// the stage would otherwise wait too long.
  void fill_gap(std::size_t at, Leg leg, bool fills) {
    auto const end_there = end_before(at, leg);
    if (!end_there) return;
    VStage const& stage = stages_[at];
    double const arrival = *end_there + settings_->costs.transfer;
    while (!stage.waiting_weights.empty() &&
           arrival >= stage.end + settings_->costs.weight_gradient) {
      put_weight(at);
    }
    if (fills && !stage.waiting_weights.empty() &&
        arrival - stage.end > accepted_bubble(at) - stage.bubble) {
      put_weight(at);
    }
  }

  /// Runs forwards up to the first one at the end of the model, and as many forwards of later
  /// microbatches as fit beside them.
  void warm_up() {
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) put(stage, Leg::forward_down);
    for (std::size_t stage = stages_.size(); stage-- > 0;) {
      if (auto const end_there = end_before(stage, Leg::forward_up)) {
        double const arrival = *end_there + settings_->costs.transfer;
        double const room = settings_->memory.forward * static_cast<double>(2 + 2 * stage);
        while (stages_[stage].memory + room <= settings_->memory_limit &&
               stages_[stage].end + settings_->costs.forward <= arrival &&
               stages_[stage].count(Leg::forward_down) < settings_->microbatches) {
          for (std::size_t above = 0; above <= stage; ++above) put(above, Leg::forward_down);
        }
      }
      put(stage, Leg::forward_up);
    }
  }

  /// Runs forwards on later stages, in the two chunks in turn, until each stage has run as many as
  /// the stage before, and one more of chunk 1.
  void even_out_warm_up() {
    Leg next = Leg::forward_down;
    for (std::size_t stage = 1; stage < stages_.size(); ++stage) {
      VStage const& here = stages_[stage];
      VStage const& above = stages_[stage - 1];
      while (here.forwards() < above.forwards() ||
             (here.count(Leg::forward_up) <= above.count(Leg::forward_up) &&
              above.count(Leg::forward_up) < settings_->microbatches)) {
        for (std::size_t at = stages_.size(); at-- > stage;) {
          if (stages_[at].count(next) < settings_->microbatches) put(at, next);
        }
        next = next == Leg::forward_down ? Leg::forward_up : Leg::forward_down;
      }
    }
  }

  Leg next_gradient(std::size_t at) const {
    VStage const& stage = stages_[at];
    if (stage.count(Leg::gradient_up) >= stage.count(Leg::gradient_down)) {
      return Leg::gradient_down;
    }
    bool const has_input = is_last(at) || end_before(at, Leg::gradient_up).has_value();
    return has_input || stage.count(Leg::gradient_down) >= settings_->microbatches
               ? Leg::gradient_up
               : Leg::gradient_down;
  }

  void gradient_round() {
    std::vector<Leg> legs(stages_.size());
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      make_room(stage, settings_->memory.input_gradient);
    }
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) legs[stage] = next_gradient(stage);
    for (std::size_t stage = stages_.size(); stage-- > 0;) {
      if (legs[stage] != Leg::gradient_up) continue;
      fill_gap(stage, Leg::gradient_up, true);
      put(stage, Leg::gradient_up);
    }
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      if (legs[stage] != Leg::gradient_down) continue;
      fill_gap(stage, Leg::gradient_down, choices_.fills_before_gradient);
      put(stage, Leg::gradient_down);
    }
  }

  std::optional<Leg> next_forward(std::size_t at) const {
    VStage const& stage = stages_[at];
    if (stage.count(Leg::forward_up) >= settings_->microbatches) return std::nullopt;
    if (stage.count(Leg::forward_up) >= stage.count(Leg::forward_down)) return Leg::forward_down;
    if (is_last(at) || end_before(at, Leg::forward_up)) return Leg::forward_up;
    if (stage.count(Leg::forward_down) >= settings_->microbatches) return std::nullopt;
    if (at == 0 || end_before(at, Leg::forward_down)) return Leg::forward_down;
    return std::nullopt;
  }

  void forward_round() {
    for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
      auto const leg = next_forward(stage);
      if (!leg) continue;
      make_room(stage, settings_->memory.forward);
      fill_gap(stage, *leg, choices_.fills_before_forward);
      put(stage, *leg);
    }
  }

  VSettings const* settings_;
  VChoices choices_;
  std::vector<double> approved_;
  double worst_approved_ = 0;
  std::vector<VStage> stages_;
};

/// Tries again with the bubbles of the try before for as long as that helps.
VRun best_of_tries(VSettings const& settings, VChoices const& choices) {
  VRun best{settings, choices, {}};
  best.run();
  for (bool is_better = true; is_better;) {
    VRun next{settings, choices, best.bubbles()};
    next.run();
    is_better = next.worst_bubble() < best.worst_bubble();
    if (is_better) best = std::move(next);
  }
  return best;
}

}  // namespace

PipelineOrder zbv_auto_order(int stages,
                             int microbatches,
                             ChunkCosts const& costs,
                             MemoryChanges const& memory,
                             double memory_limit) {
  VSettings const settings{stages, microbatches, costs, memory, memory_limit};
  std::optional<VRun> best;
  for (bool const fills_before_gradient : {true, false}) {
    for (bool const fills_before_forward : {true, false}) {
      VRun run = best_of_tries(settings, {fills_before_gradient, fills_before_forward});
      if (!best || run.worst_bubble() < best->worst_bubble()) best.emplace(std::move(run));
    }
  }
  return {v_placement(stages), microbatches, std::move(*best).take()};
}

}  // namespace stagecraft
