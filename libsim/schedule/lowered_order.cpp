#include "libsim/schedule/lowered_order.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <set>
#include <span>
#include <string_view>
#include <tuple>

#include "libsim/schedule/orders/schedule_error.hpp"

namespace stagecraft {
namespace {

using LoweredKind = LoweredAction::Kind;
using Actions = std::vector<LoweredAction>;

bool sends_gradient(Pass pass) { return pass == Pass::backward || pass == Pass::input_gradient; }
bool ends_gradient(Pass pass) { return pass == Pass::backward || pass == Pass::weight_gradient; }

/// Each computation, or pair of them, of a rank: what is issued as one.
std::vector<std::span<LoweredAction const>> steps_of(Actions const& actions) {
  std::vector<std::span<LoweredAction const>> steps;
  for (std::size_t i = 0; i < actions.size();) {
    std::size_t const count = actions[i].is_paired ? 2 : 1;
    steps.emplace_back(actions.data() + i, count);
    i += count;
  }
  return steps;
}

Actions computations(PipelineOrder const& order, StageId rank) {
  Actions actions;
  for (OrderTask const& task : order.stages[rank.index()]) {
    if (task.run.pass == Pass::recompute) {
      throw ScheduleError{"order", "a recompute", "forwards, backwards and their two parts"};
    }
    actions.push_back({.stage = order.placement.virtual_stage({rank, task.run.chunk}),
                       .microbatch = task.run.microbatch,
                       .pass = task.run.pass,
                       .is_paired = task.is_paired});
  }
  return actions;
}

/// The first `count` stages that steps compute, or one more if a pair has the last of them.
template <typename Steps>
std::vector<VirtualStageId> next_stages(Steps const& steps, int count) {
  std::vector<VirtualStageId> stages;
  for (auto const& step : steps) {
    for (LoweredAction const& action : step) {
      if (std::ranges::find(stages, action.stage) == stages.end()) stages.push_back(action.stage);
    }
    if (std::ssize(stages) >= count) break;
  }
  return stages;
}

/// Gathers each stage before it computes, as far ahead as the policy says, and frees those that are
/// not among the next ones.
class UnshardWriter {
 public:
  UnshardWriter(LoweringPolicy const& policy, StageId rank)
      : held_{policy.max_active_stages},
        ahead_{policy.looks_ahead_by_rank ? std::min(rank.value() + 2, held_) : held_} {}

  Actions with_unshards(Actions const& computations) {
    auto const steps = steps_of(computations);
    for (std::size_t i = 0; i < steps.size(); ++i) {
      auto const rest = std::span{steps}.subspan(i);
      if (std::ssize(next_stages(rest.first(1), 2)) > held_) {
        throw ScheduleError{"max active stages", "'" + std::to_string(held_) + "'",
                            "at least 2, the stages of a pair"};
      }
      std::vector<VirtualStageId> const kept = next_stages(rest, held_);
      std::vector<VirtualStageId> const active = active_;
      for (VirtualStageId const stage : active) {
        if (std::ranges::find(kept, stage) == kept.end()) reshard(stage);
      }
      for (VirtualStageId const stage : next_stages(rest, ahead_)) {
        if (std::ranges::find(active, stage) == active.end()) unshard(stage);
      }
      actions_.insert(actions_.end(), steps[i].begin(), steps[i].end());
    }
    while (!active_.empty()) reshard(active_.front());
    return std::move(actions_);
  }

  int unshards() const { return unshards_; }
  int most_active() const { return most_active_; }

 private:
  void unshard(VirtualStageId stage) {
    active_.push_back(stage);
    actions_.push_back({.kind = LoweredKind::unshard, .stage = stage});
    ++unshards_;
    most_active_ = std::max(most_active_, static_cast<int>(active_.size()));
  }
  void reshard(VirtualStageId stage) {
    std::erase(active_, stage);
    actions_.push_back({.kind = LoweredKind::reshard, .stage = stage});
  }

  int held_;
  int ahead_;
  std::vector<VirtualStageId> active_;  ///< in the order in which they were gathered
  Actions actions_;
  int unshards_ = 0;
  int most_active_ = 0;
};

/// Reduces each stage's gradients once its last microbatch has added to them.
Actions with_reductions(Actions const& actions, int microbatches, int stages, bool defers) {
  Actions result;
  std::vector<int> left(static_cast<std::size_t>(stages), microbatches);
  std::optional<VirtualStageId> pending;
  auto const wait = [&] {
    if (pending) result.push_back({.kind = LoweredKind::wait_for_reduction, .stage = *pending});
    pending.reset();
  };
  for (auto const& step : steps_of(actions)) {
    result.insert(result.end(), step.begin(), step.end());
    for (LoweredAction const& action : step) {
      if (action.kind != LoweredKind::compute || !ends_gradient(action.pass)) continue;
      if (--left[action.stage.index()] > 0) continue;
      wait();
      result.push_back({.kind = LoweredKind::reduce_gradients, .stage = action.stage});
      pending = action.stage;
      if (!defers) wait();
    }
  }
  wait();
  return result;
}

/// Adds messages: a rank posts a receive where its sender sends. The ranks take turns, each with
/// its next step if the inputs of that have arrived.
class MessageWriter {
 public:
  MessageWriter(Placement const& placement, std::vector<Actions> const& ranks)
      : placement_{placement}, results_(ranks.size()), arrived_(ranks.size()) {
    for (Actions const& actions : ranks) steps_.push_back(steps_of(actions));
  }

  std::vector<Actions> write() && {
    std::vector<std::size_t> next(steps_.size());
    for (bool progress = true; progress;) {
      progress = false;
      for (std::size_t rank = 0; rank < steps_.size(); ++rank) {
        if (next[rank] == steps_[rank].size()) continue;
        auto const step = steps_[rank][next[rank]];
        if (!std::ranges::all_of(step, [&](auto const& one) { return is_ready(rank, one); })) {
          continue;
        }
        results_[rank].insert(results_[rank].end(), step.begin(), step.end());
        for (LoweredAction const& action : step) pass_on(rank, action);
        ++next[rank];
        progress = true;
      }
    }
    return std::move(results_);
  }

 private:
  /// An input of a rank: activations, or gradients, of a microbatch for a stage.
  using Input = std::tuple<bool, VirtualStageId, MicrobatchId>;

  static bool is_gradient(LoweredAction const& action) { return sends_gradient(action.pass); }

  bool is_ready(std::size_t rank, LoweredAction const& action) const {
    if (action.kind != LoweredKind::compute || action.pass == Pass::weight_gradient) return true;
    VirtualStageId const begin = is_gradient(action) ? placement_.last() : VirtualStageId{0};
    if (action.stage == begin) return true;
    return arrived_[rank].contains({is_gradient(action), action.stage, action.microbatch});
  }

  /// Gives a computation's result to the next stage, with messages if another rank has that.
  void pass_on(std::size_t rank, LoweredAction const& action) {
    if (action.kind != LoweredKind::compute || action.pass == Pass::weight_gradient) return;
    bool const back = is_gradient(action);
    if (action.stage == (back ? VirtualStageId{0} : placement_.last())) return;
    VirtualStageId const to{action.stage.value() + (back ? -1 : 1)};
    std::size_t const receiver = placement_.place(to).stage.index();
    arrived_[receiver].insert({back, to, action.microbatch});
    if (receiver == rank) return;
    results_[rank].push_back({.kind = back ? LoweredKind::send_backward : LoweredKind::send_forward,
                              .stage = action.stage,
                              .microbatch = action.microbatch});
    results_[receiver].push_back(
        {.kind = back ? LoweredKind::receive_backward : LoweredKind::receive_forward,
         .stage = to,
         .microbatch = action.microbatch});
  }

  Placement const& placement_;
  std::vector<std::vector<std::span<LoweredAction const>>> steps_;  ///< by rank
  std::vector<Actions> results_;                                    ///< by rank
  std::vector<std::set<Input>> arrived_;                            ///< by rank
};

/// Waits for each send: of a forward behind the backward of the same microbatch and stage, which
/// proves that it has been taken; of others at the end.
Actions with_send_waits(Actions const& actions) {
  Actions result;
  Actions pending;
  auto const wait = [&](LoweredAction const& send) {
    result.push_back({.kind = send.kind == LoweredKind::send_forward
                                  ? LoweredKind::wait_for_send_forward
                                  : LoweredKind::wait_for_send_backward,
                      .stage = send.stage,
                      .microbatch = send.microbatch});
  };
  for (auto const& step : steps_of(actions)) {
    result.insert(result.end(), step.begin(), step.end());
    for (LoweredAction const& action : step) {
      if (action.kind == LoweredKind::send_forward || action.kind == LoweredKind::send_backward) {
        pending.push_back(action);
      }
      if (action.kind != LoweredKind::compute || !sends_gradient(action.pass)) continue;
      auto const sent = std::ranges::find(pending, LoweredAction{.kind = LoweredKind::send_forward,
                                                                 .stage = action.stage,
                                                                 .microbatch = action.microbatch});
      if (sent == pending.end()) continue;
      wait(*sent);
      pending.erase(sent);
    }
  }
  for (LoweredAction const& send : pending) wait(send);
  return result;
}

/// What PyTorch calls an action, and whether a microbatch follows.
std::string word_of(LoweredAction const& action) {
  constexpr std::array<std::string_view, 11> words{
      "",       "UNSHARD", "RESHARD", "REDUCE_GRAD", "WAIT_REDUCE_GRAD", "SEND_F",
      "RECV_F", "SEND_B",  "RECV_B",  "WAIT_SEND_F", "WAIT_SEND_B"};
  std::string text = std::to_string(action.stage.value());
  if (action.kind == LoweredKind::compute) {
    text += letter_of(action.pass);
  } else {
    text += words[static_cast<std::size_t>(action.kind)];
  }
  bool const is_of_stage = action.kind == LoweredKind::unshard ||
                           action.kind == LoweredKind::reshard ||
                           action.kind == LoweredKind::reduce_gradients ||
                           action.kind == LoweredKind::wait_for_reduction;
  return is_of_stage ? text : text + std::to_string(action.microbatch.value());
}

}  // namespace

LoweredOrder lowered(PipelineOrder const& order, LoweringPolicy const& policy) {
  Placement const& placement = order.placement;
  if (placement.copies() > 1) {
    throw ScheduleError{"order", "two copies of the model", "one copy"};
  }
  LoweredOrder result;
  std::vector<Actions> ranks;
  for (StageId const rank : placement.stage_ids()) {
    UnshardWriter unshards{policy, rank};
    ranks.push_back(with_reductions(unshards.with_unshards(computations(order, rank)),
                                    order.microbatches, placement.virtual_stages(),
                                    policy.defers_reduction_wait));
    result.unshards.push_back(unshards.unshards());
    result.most_unsharded.push_back(unshards.most_active());
  }
  for (Actions const& actions : MessageWriter{placement, ranks}.write()) {
    result.ranks.push_back(with_send_waits(actions));
  }
  return result;
}

std::string lowered_text(std::vector<LoweredAction> const& actions) {
  std::string text;
  for (auto const& step : steps_of(actions)) {
    if (!text.empty()) text += ' ';
    if (step.size() == 1) {
      text += word_of(step.front());
    } else {
      text += '(' + word_of(step[0]) + ';' + word_of(step[1]) + ")OVERLAP_F_B";
    }
  }
  return text;
}

}  // namespace stagecraft
