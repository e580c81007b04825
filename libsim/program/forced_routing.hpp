#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "libsim/units/ids.hpp"
#include "libsim/units/sorted_search.hpp"

namespace stagecraft {

/// The slots of ForcedCounts, in a form that kernels can read.
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

/// The number of rows that each expert of a layer computes for one microbatch. The experts that
/// each token chooses follow from it.
///
/// For T tokens there are k T slots: the rows of expert 0, then those of expert 1 and so on. Choice
/// j of token i is the expert of slot j T + (g i mod T), where g is the number nearest to T
/// (sqrt(5) - 1) / 2 that has no divisor in common with T. No expert has more than T rows, so the k
/// choices of a token differ. The multiples of g are spread evenly over [0, T), so that the tokens
/// of every rank choose experts almost in proportion to their rows, however a microbatch is split.
/// The choices of a token depend neither on the layout nor on the router.
class ForcedCounts {
 public:
  /// `rows` has an entry per expert. Pre: none of them exceeds `tokens`, and `tokens` divides their
  /// sum.
  ForcedCounts(std::vector<std::int64_t> const& rows, std::int64_t tokens);

  std::int64_t tokens() const { return tokens_; }
  std::int64_t experts() const { return static_cast<std::int64_t>(ends_.size()); }
  /// k: choices per token. Pre: there is a token.
  std::int64_t per_token() const { return ends_.back() / tokens_; }
  std::int64_t rows(std::int64_t expert) const;
  std::int64_t expert_of(std::int64_t token, std::int64_t choice) const {
    return slots().expert_of(token, choice);
  }
  /// The slots, valid as long as this object. Pre: there is a token.
  ForcedSlots slots() const {
    return {.ends = ends_.data(),
            .experts = experts(),
            .tokens = tokens_,
            .per_token = per_token(),
            .stride = stride_};
  }
  /// Adds one row to the expert of each choice of tokens [first, first + count).
  void add_rows(std::int64_t first, std::int64_t count, std::vector<std::int64_t>& rows) const;

  /// An arbitrary total order, so that counts can be keys of a map.
  friend auto operator<=>(ForcedCounts const&, ForcedCounts const&) = default;

 private:
  std::int64_t tokens_ = 0;
  std::int64_t stride_ = 1;         ///< g
  std::vector<std::int64_t> ends_;  ///< the slot after the last one of each expert
};

/// The counts of all sparse layers and microbatches of a global batch; equal ones are held once.
class ForcedRouting {
 public:
  /// `layer` is a layer of the whole model; `microbatch` may be every_microbatch.
  void add(std::int64_t layer, BatchMicrobatchId microbatch, ForcedCounts counts);

  /// Whether some microbatch has counts of its own.
  bool depends_on_microbatch() const { return depends_on_microbatch_; }
  /// The index in counts() of the counts of a layer and a microbatch of the global batch.
  /// \\throws std::out_of_range  if there are none
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
  std::map<ForcedCounts, std::int32_t> known_;  ///< the index of each of counts()
  std::map<std::pair<std::int64_t, BatchMicrobatchId>, std::int32_t>
      numbers_;  ///< by layer and microbatch
  bool depends_on_microbatch_ = false;
};

}  // namespace stagecraft
