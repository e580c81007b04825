#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "libsim/search/chunk_contents.hpp"
#include "libsim/search/search_request.hpp"
#include "libsim/search/search_space.hpp"
#include "libsim/units/units.hpp"

namespace stagecraft {

/// The memory that a stage holds and the work that it does apart from its microbatches.
struct StageFacts {
  Bytes resident;    ///< parameters, gradients and optimizer state
  SimTime begin{0};  ///< time before the first microbatch
  SimTime end{0};    ///< time after the last microbatch, without waiting for other stages
};

/// The facts of an arrangement's stages, by stage, from the step programs of its plan.
std::vector<StageFacts> make_stage_facts(SearchRequest const& request,
                                         LayerKinds const& kinds,
                                         Arrangement const& arrangement,
                                         Sharding sharding);

/// Keeps facts that schedules, microbatch sizes and policies share. Threads may share it too.
class StageFactsCache {
 public:
  /// `request` must outlive this object.
  explicit StageFactsCache(SearchRequest const& request)
      : request_{request}, kinds_{request.base.model} {}
  std::shared_ptr<std::vector<StageFacts> const> of(Arrangement const& arrangement,
                                                    Sharding sharding);

 private:
  using Key = std::array<std::int64_t, 15>;
  SearchRequest const& request_;
  LayerKinds kinds_;
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<std::vector<StageFacts> const>> known_;
};

}  // namespace stagecraft
