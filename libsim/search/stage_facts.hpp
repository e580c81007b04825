#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <mutex>

#include "libsim/search/search_request.hpp"
#include "libsim/search/search_space.hpp"

namespace stagecraft {

/// What a stage holds and does around its microbatches.
struct StageFacts {
  std::int64_t resident = 0;  ///< bytes of parameters, gradients and optimizer state
  std::int64_t begin = 0;     ///< picoseconds before the first microbatch
  std::int64_t end = 0;       ///< picoseconds after the last, alone and without waiting
};

/// By role.
using RoleFacts = std::array<StageFacts, stage_roles>;

/// Facts of the stages of an arrangement, from the step programs that a plan has.
RoleFacts make_role_facts(SearchRequest const& request,
                          Arrangement const& arrangement,
                          bool distributed_optimizer);

/// Keeps facts: schedules, microbatch sizes and policies share them. Threads may share it too.
class RoleFactsCache {
 public:
  /// `request` must outlive this object.
  explicit RoleFactsCache(SearchRequest const& request) : request_{request} {}
  RoleFacts of(Arrangement const& arrangement, bool distributed_optimizer);

 private:
  using Key = std::array<std::int64_t, 7>;
  SearchRequest const& request_;
  std::mutex mutex_;
  std::map<Key, RoleFacts> known_;
};

}  // namespace stagecraft
