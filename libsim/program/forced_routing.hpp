#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "libsim/units/ids.hpp"
#include "libsim/units/sorted_search.hpp"

namespace stagecraft {

/// The slots of ForcedCounts, as a device can have them.
struct ForcedSlots {
  std::int64_t const* ends = nullptr;  ///< the slot after the last one of each expert
  std::int64_t experts = 0;
  std::int64_t tokens = 0;
  std::int64_t per_token = 0;
  std::int64_t stride = 1;

  constexpr std::int64_t expert_of(std::int64_t token, std::int64_t choice) const {
    std::int64_t const slot = choice * tokens + stride * token % tokens;
    return first_above(ends, experts, slot);
  }
};

/// How many rows each expert of a layer computes for one microbatch, and so the experts that each
/// token chooses.
///
/// The rows of expert 0, then those of expert 1 and so on, are k T slots for T tokens. Choice j of
/// token i is the expert of slot j T + (g i mod T), where g is the number nearest to T (sqrt(5) -
/// 1) / 2 that has no divisor in common with T. No expert has more than T rows, so the k choices of
/// a token differ. The multiples of g are spread over [0, T) evenly, so that the tokens of every
/// rank choose experts almost in proportion to their rows, however a microbatch is split. The
/// choices of a token depend neither on the layout nor on the router.
class ForcedCounts {
 public:
  /// `rows` has an entry per expert. Pre: none of them exceeds `tokens`, and `tokens` divides their
  /// sum.
  ForcedCounts(std::vector<std::int64_t> const& rows, std::int64_t tokens);

  std::int64_t tokens() const { return tokens_; }
  std::int64_t experts() const { return static_cast<std::int64_t>(ends_.size()); }
  /// k. Pre: there is a token.
  std::int64_t per_token() const { return ends_.back() / tokens_; }
  std::int64_t rows(std::int64_t expert) const;
  std::int64_t expert_of(std::int64_t token, std::int64_t choice) const {
    return slots().expert_of(token, choice);
  }
  /// Valid as long as this object. Pre: there is a token.
  ForcedSlots slots() const {
    return {.ends = ends_.data(),
            .experts = experts(),
            .tokens = tokens_,
            .per_token = per_token(),
            .stride = stride_};
  }
  /// Adds one row to the expert of each choice of tokens [first, first + count).
  void add_rows(std::int64_t first, std::int64_t count, std::vector<std::int64_t>& rows) const;

  /// Orders counts in some way, so that they can be looked up.
  friend auto operator<=>(ForcedCounts const&, ForcedCounts const&) = default;

 private:
  std::int64_t tokens_ = 0;
  std::int64_t stride_ = 1;         ///< g
  std::vector<std::int64_t> ends_;  ///< the slot after the last one of each expert
};

/// The counts of all sparse layers and all microbatches of a global batch.
class ForcedRouting {
 public:
  /// `layer` is a layer of the whole model; `microbatch` may be every_microbatch.
  void add(std::int64_t layer, BatchMicrobatchId microbatch, ForcedCounts counts);

  /// Whether some microbatch has counts of its own.
  bool depends_on_microbatch() const { return depends_on_microbatch_; }
  /// The number, in counts(), of what a microbatch of the global batch has in a layer.
  /// \throws std::out_of_range  if it has none
  std::int32_t number_of(std::int64_t layer, BatchMicrobatchId microbatch) const;
  ForcedCounts const& of(std::int64_t layer, BatchMicrobatchId microbatch) const {
    return counts_[static_cast<std::size_t>(number_of(layer, microbatch))];
  }
  /// The distinct counts, in the order in which they were added.
  std::vector<ForcedCounts> const& counts() const { return counts_; }
  std::map<std::pair<std::int64_t, BatchMicrobatchId>, std::int32_t> const& numbers() const {
    return numbers_;
  }

 private:
  std::vector<ForcedCounts> counts_;
  std::map<ForcedCounts, std::int32_t> known_;                                  ///< their numbers
  std::map<std::pair<std::int64_t, BatchMicrobatchId>, std::int32_t> numbers_;  ///< by layer
  bool depends_on_microbatch_ = false;
};

}  // namespace stagecraft
