#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "libsim/schedule/orders/makespan_bound.hpp"
#include "libsim/schedule/orders/memory_changes.hpp"
#include "libsim/schedule/orders/pipeline_order.hpp"

namespace stagecraft {

/// An order of split backwards in which each part of a chunk takes microbatches in order, so that
/// which part of which chunk comes next says it all.
struct LetterOrder {
  Placement placement;  ///< of one copy of the model
  int microbatches = 1;
  /// By stage: part * chunks + chunk, where part is 0 for a forward, 1 for an input gradient and 2
  /// for a weight gradient.
  std::vector<std::vector<std::uint16_t>> stages;
};

/// The letters of an order. Whole backwards become an input gradient and a weight gradient right
/// behind it, pairs one task after the other; so it takes no longer. nullopt if some part of a
/// chunk takes microbatches out of order, or if there is recompute or a second copy of the model.
std::optional<LetterOrder> letters_of(PipelineOrder const& order);

/// `joins`: an input gradient right before its weight gradient is one whole backward.
PipelineOrder order_of(LetterOrder const& letters, bool joins = false);

/// Whether each prefix of a stage's letters has, of each chunk, no fewer forwards than input
/// gradients and no fewer of those than weight gradients, and stays within the memory limit.
bool is_stage_legal(std::vector<std::uint16_t> const& stage,
                    int chunks,
                    MemoryChanges const& memory,
                    double memory_limit);

/// What an order is judged by: its makespan, then the sum of the ends of its stages.
struct LetterTimes {
  SimTime makespan{0};
  SimTime sum_of_ends{0};

  friend auto operator<=>(LetterTimes const&, LetterTimes const&) = default;
};

/// Plays orders of one placement and number of microbatches, as play_order() does, again and again.
/// If the costs join, an input gradient right before its weight gradient is a whole backward.
class LetterPlayer {
 public:
  LetterPlayer(Placement const& placement, int microbatches, StageTicks const& costs);

  /// nullopt if the stages wait for each other in a circle.
  std::optional<LetterTimes> play(LetterOrder const& order);

 private:
  /// What a letter of a stage is, and needs of another stage.
  struct Task {
    SimTime cost{0};
    SimTime transfer{0};       ///< of what it needs
    std::int32_t made = -1;    ///< stream of what it makes for others; -1: nothing
    std::int32_t needed = -1;  ///< stream of what it needs; -1: nothing
    SimTime rest{0};           ///< an input gradient: what it takes more as a whole backward
  };

  bool advance(std::size_t stage, std::vector<std::uint16_t> const& letters);

  /// Whether the next letter of a stage and the one behind it are a whole backward.
  bool is_whole(std::size_t stage, std::vector<std::uint16_t> const& letters) const;

  bool joins_;
  std::size_t letters_per_stage_;
  std::size_t microbatches_;
  std::vector<Task> tasks_;          ///< by stage and letter
  std::vector<SimTime> ends_;        ///< by stream (part of a virtual stage) and microbatch
  std::vector<std::int32_t> made_;   ///< how many of each stream are made
  std::vector<std::int32_t> taken_;  ///< by stage and letter
  std::vector<std::size_t> next_;    ///< by stage
  std::vector<SimTime> free_;        ///< likewise
};

}  // namespace stagecraft
