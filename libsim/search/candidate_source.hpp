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

  /// All plans with one shape, in order; those that cannot fit are only counted, unless the search
  /// is exhaustive. Two entries are never the same plan, but that a window may come to store
  /// nothing.
  Candidates of(ShapeChoice const& shape);

  /// Bytes that a stage may hold: the system's capacity less reserve and workspace.
  std::int64_t room() const { return room_; }

 private:
  SearchRequest const& request_;
  std::int64_t room_;
  StageMomentsCache moments_;
  RoleFactsCache facts_;
};

/// The run that a candidate stands for; windows are still `auto`.
TrainingConfig config_of(SearchRequest const& request,
                         Candidates const& candidates,
                         Candidate const& plan);

}  // namespace stagecraft
