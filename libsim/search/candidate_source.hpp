#pragma once

#include <cstdint>

#include "libsim/search/candidate.hpp"
#include "libsim/search/search_request.hpp"
#include "libsim/search/stage_facts.hpp"
#include "libsim/search/stage_moments.hpp"

namespace stagecraft {

/// Goes through the plans of a search and gives each its bounds. Threads may share it.
class CandidateSource {
 public:
  /// `request` must outlive this object.
  explicit CandidateSource(SearchRequest const& request);

  /// How plans are treated that cannot fit because of what a stage holds all the time.
  enum class Hopeless : std::uint8_t { counted, looked_at };

  /// All plans with one shape, in order; those that cannot fit are only counted, unless the search
  /// is exhaustive. Those whose parameters, gradients and optimizer state alone are too large take
  /// no part in Candidates::closest, unless asked for. Two entries are never the same plan, but
  /// that a window may come to store nothing.
  Candidates of(ShapeChoice const& shape, Hopeless hopeless = Hopeless::counted);

  /// Bytes that a stage may hold: the system's capacity less reserve and workspace.
  std::int64_t room() const { return room_; }

 private:
  /// How many plans of an arrangement cannot fit whatever is recomputed; 0 where some might.
  std::int64_t dismissed_at_once(Arrangement const& arrangement,
                                 std::vector<StageFacts> const& facts) const;

  SearchRequest const& request_;
  std::int64_t room_;
  StageMomentsCache moments_;
  StageFactsCache facts_;
};

/// The run that a candidate stands for; windows are still `auto`.
TrainingConfig config_of(SearchRequest const& request,
                         Candidates const& candidates,
                         Candidate const& plan);

}  // namespace stagecraft
