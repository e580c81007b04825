#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "libsim/schedule/orders/makespan_bound.hpp"
#include "libsim/schedule/orders/memory_changes.hpp"
#include "libsim/schedule/orders/pipeline_order.hpp"

namespace stagecraft {

/// An order of split backwards in which each part of a chunk takes microbatches in order. So the
/// sequence of chunks and parts determines it.
struct LetterOrder {
  Placement placement;  ///< has one copy of the model
  int microbatches = 1;
  /// By stage: part * chunks + chunk, where part is 0 for a forward, 1 for an input gradient and 2
  /// for a weight gradient.
  std::vector<std::vector<std::uint16_t>> stages;
};

/// The letters of an order. A whole backward becomes an input gradient directly followed by its
/// weight gradient, and a pair becomes one task after the other, so the letters take no longer.
/// nullopt if some part of a chunk takes microbatches out of order, or if there is recompute or a
/// second copy of the model.
std::optional<LetterOrder> letters_of(PipelineOrder const& order);

/// `joins`: whether an input gradient right before its weight gradient becomes one whole backward.
PipelineOrder order_of(LetterOrder const& letters, bool joins = false);

/// Whether each prefix of a stage's letters has, for each chunk, at least as many forwards as input
/// gradients and as many input gradients as weight gradients, and stays within the memory limit.
bool is_stage_legal(std::vector<std::uint16_t> const& stage,
                    int chunks,
                    MemoryChanges const& memory,
                    double memory_limit);

/// The criteria of an order: its makespan, then the sum of the ends of its stages.
struct LetterTimes {
  SimTime makespan{0};
  SimTime sum_of_ends{0};

  friend auto operator<=>(LetterTimes const&, LetterTimes const&) = default;
};

/// Plays orders of one placement and number of microbatches repeatedly, as play_order() does. If
/// the costs join, an input gradient right before its weight gradient is a whole backward.
class LetterPlayer {
 public:
  LetterPlayer(Placement const& placement, int microbatches, StageTicks const& costs);

  /// nullopt if the stages wait for each other in a circle.
  std::optional<LetterTimes> play(LetterOrder const& order);

 private:
  /// The task of a letter of a stage, and its input from another stage.
  struct Task {
    SimTime cost{0};
    SimTime transfer{0};       ///< duration of the message with its input
    std::int32_t made = -1;    ///< stream of its output for others; -1: none
    std::int32_t needed = -1;  ///< stream of its input; -1: none
    SimTime rest{0};           ///< an input gradient: additional time if it is a whole backward
  };

  bool advance(std::size_t stage, std::vector<std::uint16_t> const& letters);

  /// Whether the next two letters of a stage are a whole backward.
  bool is_whole(std::size_t stage, std::vector<std::uint16_t> const& letters) const;

  bool joins_;
  std::size_t letters_per_stage_;
  std::size_t microbatches_;
  std::vector<Task> tasks_;          ///< by stage and letter
  std::vector<SimTime> ends_;        ///< by stream (part of a virtual stage) and microbatch
  std::vector<std::int32_t> made_;   ///< outputs made, by stream
  std::vector<std::int32_t> taken_;  ///< by stage and letter
  std::vector<std::size_t> next_;    ///< by stage
  std::vector<SimTime> free_;        ///< by stage
};

}  // namespace stagecraft
