#include "libsim/search/recompute_choice.hpp"

#include <algorithm>
#include <stdexcept>

namespace stagecraft {

RecomputeChoices::RecomputeChoices(Arrangement const& arrangement,
                                   BlockSummaries& blocks,
                                   std::vector<StageMoments> const& moments,
                                   MessageSizes const& sizes,
                                   bool tied_embeddings,
                                   std::int64_t microbatches)
    : stages_{arrangement.schedule.pipeline},
      chunks_{arrangement.schedule.interleave},
      microbatches_{microbatches},
      shares_{arrangement.shares},
      moments_{moments},
      sizes_{sizes} {
  auto const& layers = shares_.layers;
  policies_ = uniform_policies(largest_chunk(arrangement));
  for (int role = 0; role < stage_roles; ++role) {
    auto const r = static_cast<std::size_t>(role);
    if (stages_ < 3 && role == static_cast<int>(StageRole::middle)) continue;
    if (stages_ < 2 && role == static_cast<int>(StageRole::last)) continue;
    bool const is_first = role == static_cast<int>(StageRole::first);
    bool const is_last = role == static_cast<int>(StageRole::last) || stages_ == 1;
    ChunkEnds const ends{.embedding = is_first,
                         .head = is_last,
                         .head_shares_weight = tied_embeddings && stages_ == 1};
    for (PolicyCode const policy : policies_) {
      std::int64_t const count = layers[r] / chunks_;
      StageLoad& made = loads_[r].emplace_back();
      made.regular = blocks.chunk(count, policy, {});
      if (is_first || is_last) made.special = blocks.chunk(count, policy, ends);
      // What StageMoments::peak() leaves out counts on it.
      if (made.regular.forward.net < 0 || made.special.forward.net < 0) {
        throw std::logic_error{"a chunk's forward frees more than it keeps"};
      }
    }
  }
  held_.reserve(static_cast<std::size_t>(stages_) * policies_.size());
  for (int stage = 0; stage < stages_; ++stage) {
    for (std::size_t policy = 0; policy < policies_.size(); ++policy) {
      held_.push_back(moments_[static_cast<std::size_t>(stage)].peak(load(stage, policy), sizes_));
    }
  }
}

std::optional<std::size_t> RecomputeChoices::least_recompute(int stage, std::int64_t room) const {
  std::optional<std::size_t> least;
  std::int64_t const layers = shares_.of(role_of(stage, stages_)) / chunks_;
  for (std::size_t policy = 0; policy < policies_.size(); ++policy) {
    if (held(stage, policy) > room || policies_[policy].layers > layers) continue;
    std::int64_t const time = load(stage, policy).regular.picoseconds();
    if (!least || time < load(stage, *least).regular.picoseconds()) least = policy;
  }
  return least;
}

StageTimes RecomputeChoices::times(int stage, std::size_t policy, StageFacts const& facts) const {
  StageLoad const& of = load(stage, policy);
  bool const has_special = stage == 0 || stage + 1 == stages_;
  bool const starts_special = stage == 0 || (has_special && chunks_ == 1);
  PieceSummary const& first = starts_special ? of.special : of.regular;
  std::int64_t const each = (has_special ? of.special.picoseconds() : of.regular.picoseconds()) +
                            (chunks_ - 1) * of.regular.picoseconds();
  return {.first_forward = static_cast<double>(first.forward.picoseconds),
          .last_backward = static_cast<double>(first.backward.picoseconds),
          .busy = static_cast<double>(microbatches_) * static_cast<double>(each),
          .begin = static_cast<double>(facts.begin),
          .end = static_cast<double>(facts.end)};
}

StageTimes RecomputeChoices::window_times(int stage,
                                          std::size_t policy,
                                          int stored,
                                          StageFacts const& facts) const {
  StageTimes least = times(stage, 0, facts);  // as if everything were stored
  std::int64_t const window = moments_[static_cast<std::size_t>(stage)].window;
  std::int64_t const runs = microbatches_ * chunks_;
  std::int64_t const kept = runs / window * stored + std::min<std::int64_t>(runs % window, stored);
  std::int64_t const recompute =
      load(stage, policy).regular.picoseconds() - load(stage, 0).regular.picoseconds();
  least.busy += static_cast<double>(runs - kept) * static_cast<double>(recompute);
  return least;
}

std::int64_t RecomputeChoices::warm_bytes(int stage, std::size_t policy) const {
  Holding const& warm = moments_[static_cast<std::size_t>(stage)].warm;
  StageLoad const& of = load(stage, policy);
  return warm.regular * of.regular.forward.net + warm.special * of.special.forward.net +
         warm.wholes * sizes_.whole + warm.pieces * sizes_.piece;
}

int RecomputeChoices::most_stored(int stage, std::size_t policy, std::int64_t room) const {
  StageMoments const& moments = moments_[static_cast<std::size_t>(stage)];
  StageLoad const& of = load(stage, policy);
  std::int64_t const more =
      load(stage, 0).regular.forward.net - of.regular.forward.net;  // that a stored chunk keeps
  if (more <= 0) return moments.window;
  // Of the first window's forwards, all are outstanding but the last, which is about to run; it is
  // stored only if the whole window is.
  std::int64_t const next =
      moments.after_warm == ChunkClass::special ? of.special.forward.peak : of.regular.forward.peak;
  std::int64_t const left = room - warm_bytes(stage, policy) - next;
  if (left < 0) return 0;
  std::int64_t const stored = left / more;
  return stored + 1 >= moments.window ? moments.window : static_cast<int>(stored);
}

std::int64_t RecomputeChoices::least_held_with_window(int stage, std::size_t policy) const {
  return warm_bytes(stage, policy);
}

}  // namespace stagecraft
